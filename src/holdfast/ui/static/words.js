// Numbers, times and names as people read them.

export const QUALITIES = ["exact", "tentative", "predicted", "absent"];
export const MEANS = {
  exact: "as if nothing had failed",
  tentative: "made from incomplete input; corrected later",
  predicted: "a prediction stands in for what is late",
  absent: "nobody makes it now",
};
export const DEAD = new Set(["failed", "lost", "abandoned", "stopped"]);

export function seconds(value) {
  if (value == null) return "–";
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 99.5) return `${value.toFixed(value < 9.95 ? 1 : 0)} s`;
  const minutes = value / 60;
  return minutes < 99 ? `${minutes.toFixed(minutes < 10 ? 1 : 0)} min` : `${(minutes / 60).toFixed(1)} h`;
}

export function count(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(0)} k`;
  if (size >= 1e3) return `${(value / 1e3).toFixed(1)} k`;
  return size >= 10 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

export function bytes(value) {
  if (!value) return "–";
  return value >= 1 << 30 ? `${(value / (1 << 30)).toFixed(1)} GiB` : `${Math.round(value / (1 << 20))} MiB`;
}

const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
export const clock = (at) => CLOCK.format(at * 1000);

export function span(value) {
  const whole = Math.max(0, Math.round(value));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

// The task of a replica's key: "3:vwap/0.1" is replica 1 of vwap/0.
export const taskOf = (key) => key.slice(key.indexOf(":") + 1, key.lastIndexOf("."));

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Makes what a home holds like these children and touches only what differs: a press on a button, a selection, the focus and
// the place of whoever reads aloud outlive it.
export function fill(home, children) {
  const wanted = [...children].filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : new Text(child)));
  wanted.forEach((made, k) => {
    const had = home.childNodes[k];
    if (!had) home.append(made);
    else if (had.nodeName !== made.nodeName || had.dataset?.key !== made.dataset?.key) had.replaceWith(made);
    else become(had, made);
  });
  while (home.childNodes.length > wanted.length) home.lastChild.remove();
}

function become(had, made) {
  if (had.nodeType === Node.TEXT_NODE) {
    if (had.data !== made.data) had.data = made.data;
    return;
  }
  for (const { name } of [...had.attributes]) if (name !== "style" && !made.hasAttribute(name)) had.removeAttribute(name);
  for (const { name, value } of made.attributes) if (name !== "style" && had.getAttribute(name) !== value) had.setAttribute(name, value);
  if (had.style.cssText !== made.style.cssText) had.style.cssText = made.style.cssText;  // as an attribute it would be inline, which is forbidden
  had.onclick = made.onclick;
  fill(had, made.childNodes);
}

export const mark = (quality) => element("span", { class: `mark ${quality ?? "waiting"}`, "aria-hidden": "true" });

export function say(id, text) {
  const node = document.getElementById(id);
  if (node.textContent !== text) node.textContent = text;
}
