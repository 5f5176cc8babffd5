// The row of cards at the top: the whole in five figures.

import { DEAD, MEANS, QUALITIES, element, mark, say, seconds } from "./words.js";

export function glance(store) {
  output(store);
  stack(store);
  let alive = 0, all = 0;
  for (const row of store.rows) for (const [, , state] of row?.[7] ?? []) all += 1, alive += DEAD.has(state) ? 0 : 1;
  big("replicas-big", all ? `${alive}` : "–", all ? ` of ${all} alive` : "");
  const doubled = store.rows.filter((row) => (row?.[7].length ?? 0) > 1).length;
  say("replicas-note", all ? `${doubled} of ${store.rows.length} tasks have more than one` : "\u00a0");
  const nodes = [...store.nodes.values()], up = nodes.filter((node) => node.state !== "lost");
  big("nodes-big", nodes.length ? `${up.length}` : "–", nodes.length ? ` of ${nodes.length} up` : "");
  const lost = nodes.filter((node) => node.state === "lost").map((node) => node.name);
  say("nodes-note", lost.length ? `lost: ${lost.slice(0, 4).join(", ")}` : nodes.length ? "all beat" : "none has registered");
  const done = store.outages.filter((outage) => outage.to !== null && !outage.who.startsWith("node "));
  const down = [...store.open.keys()].filter((who) => !who.startsWith("node ")).length;
  big("recoveries-big", `${store.recovered}`, down ? ` · ${down} down` : "");
  const last = done[done.length - 1];
  say("recoveries-note", last ? `last: ${last.name} after ${seconds(last.to - last.from)}` : down ? "none has come back yet" : "nothing has failed");
}

function big(id, value, rest) {
  const home = document.getElementById(id), text = value + rest;
  if (home.dataset.said === text) return;
  home.dataset.said = text;
  home.replaceChildren(value, element("small", {}, rest));
}

function output(store) {
  const quality = store.quality();
  const home = document.querySelector(".output");
  if (home.dataset.quality !== (quality ?? "")) {
    home.dataset.quality = quality ?? "";
    document.getElementById("out-mark").className = `mark ${quality ?? "waiting"}`;
    const words = document.getElementById("out-quality");
    words.className = quality ? `t-${quality}` : "";
    words.textContent = quality ?? (store.picture ? "waiting" : "–");
  }
  let since = null;
  for (let k = store.samples.length - 1; k >= 0 && store.samples[k][5] === quality; k--) since = store.samples[k][0];
  say("out-note", quality && since !== null ? `${MEANS[quality]}, for ${seconds(Math.max(0, store.now() - since))}` : store.picture ? "no output yet" : "no job is shown");
}

function stack(store) {
  const counts = Object.fromEntries(QUALITIES.map((quality) => [quality, 0]));
  let none = 0;
  for (const row of store.rows) row?.[1] in counts ? (counts[row[1]] += 1) : (none += 1);
  const key = JSON.stringify([counts, none]);
  const home = document.getElementById("stack");
  if (home.dataset.key === key) return;
  home.dataset.key = key;
  const parts = [...QUALITIES.map((quality) => [quality, counts[quality]]), ["none", none]].filter(([, count]) => count);
  home.replaceChildren(...parts.map(([quality, count]) => {
    const part = element("span", { class: `b-${quality}` });
    part.style.flexGrow = count;
    return part;
  }));
  document.getElementById("stack-said").replaceChildren(...(parts.length ? parts.map(([quality, count]) => element("span", {}, mark(quality === "none" ? null : quality), `${count} ${quality === "none" ? "not yet" : quality} \u00a0`)) : ["\u00a0"]));
}
