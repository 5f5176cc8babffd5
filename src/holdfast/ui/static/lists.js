// Lists beside the graph: tasks (only the rows in sight are in the page), nodes, the plan, what happened.

import { DEAD, MEANS, QUALITIES, bytes, clock, count, element, fill, mark, seconds, taskOf } from "./words.js";

const ROW = 36, SHOWN_EVENTS = 150, SHOWN_NODES = 100, SHOWN_JOBS = 60, CHIPS = 24;

export class Tasks {
  constructor(store, { choose, show }) {
    Object.assign(this, { store, choose, show });
    this.home = document.getElementById("tasks");
    this.filter = document.getElementById("filter");
    this.chosen = -1;
    this.pool = new Map();
    this.order = [];
    this.top = element("div", { class: "row top", "aria-hidden": "true" }, ...["task", "quality", "epoch", "lag", "rows/s", "nodes"].map((name, k) => element("span", { class: k > 1 && k < 5 ? "r" : "" }, name)));
    this.space = element("div", {});
    this.home.append(this.top, this.space);
    this.home.addEventListener("scroll", () => this.render());
    this.filter.addEventListener("input", () => { this.sort(); this.home.scrollTop = 0; this.render(); });
    this.home.addEventListener("keydown", (event) => this.key(event));
  }

  picture() {
    for (const row of this.pool.values()) row.home.remove();
    this.pool.clear();
    this.sort();
    this.render();
  }

  // The tasks whose name, quality, state or nodes hold what is looked for.
  sort() {
    const wanted = this.filter.value.trim().toLowerCase();
    const holds = (task, index) => {
      const [state, quality, , , , , , replicas] = this.store.rows[index] ?? [];
      return [task.name, quality, state, ...(replicas ?? []).map(([, node]) => node)].some((each) => each?.toLowerCase().includes(wanted));
    };
    this.order = (this.store.picture?.tasks ?? []).flatMap((task, index) => (!wanted || holds(task, index) ? [index] : []));
    this.space.style.height = `${this.order.length * ROW}px`;
  }

  key(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const at = this.order.indexOf(this.chosen) + (event.key === "ArrowDown" ? 1 : -1);
    const index = this.order[Math.max(0, Math.min(this.order.length - 1, at))];
    if (index !== undefined) this.choose(index), this.reveal(index);
  }

  reveal(index) {
    const top = this.order.indexOf(index) * ROW;
    if (top < this.home.scrollTop) this.home.scrollTop = top;
    else if (top + 2 * ROW > this.home.scrollTop + this.home.clientHeight) this.home.scrollTop = top + 2 * ROW - this.home.clientHeight;
  }

  render() {
    if (!this.store.picture) return;
    if (this.filter.value) this.sort();
    const first = Math.max(0, Math.floor(this.home.scrollTop / ROW) - 1);
    const last = Math.min(this.order.length, first + Math.ceil(this.home.clientHeight / ROW) + 2);
    const seen = new Set();
    for (let place = first; place < last; place++) {
      const index = this.order[place];
      seen.add(index);
      this.row(index, place);
    }
    for (const [index, row] of this.pool) if (!seen.has(index)) row.home.remove(), this.pool.delete(index);
    const chosen = this.pool.get(this.chosen);
    this.home.setAttribute("aria-activedescendant", chosen ? chosen.home.id : "");
  }

  row(index, place) {
    let row = this.pool.get(index);
    if (!row) {
      const cells = ["", "", "r", "r", "r", ""].map((kind) => element("span", { class: kind }));
      const home = element("div", { class: "row", role: "option", id: `task-${index}`, onclick: () => this.show(index) }, ...cells);
      row = { home, cells, said: [] };
      this.pool.set(index, row);
      this.home.append(home);
    }
    const data = this.store.rows[index];
    const quality = data?.[1] ?? null;
    const texts = [this.store.picture.tasks[index].name, quality ?? data?.[0] ?? "–", data?.[2] ?? "–", seconds(data?.[4] ?? null), count(data?.[5] ?? null),
      (data?.[7] ?? []).map(([, node, state]) => (DEAD.has(state) ? `${node} (${state})` : node)).join(" ")];
    texts.forEach((text, k) => {
      if (row.said[k] === text) return;
      row.said[k] = text;
      if (k === 1) row.cells[k].replaceChildren(mark(quality), String(text)), row.cells[k].className = quality ? `t-${quality}` : "";
      else row.cells[k].textContent = text;
    });
    const top = `${(place + 1) * ROW}px`;
    if (row.home.style.top !== top) row.home.style.top = top, row.home.setAttribute("aria-posinset", place + 1);
    row.home.setAttribute("aria-setsize", this.order.length);
    row.home.classList.toggle("chosen", index === this.chosen);
    row.home.setAttribute("aria-selected", index === this.chosen);
    row.home.dataset.state = data?.[0] ?? "";
  }
}

export class Nodes {
  constructor(store, { lose, choose }) {
    Object.assign(this, { store, lose, choose });
    this.home = document.getElementById("nodes");
    this.rest = document.getElementById("nodes-rest");
    this.made = new Map();
  }

  render() {
    const here = new Map();
    this.store.rows.forEach((row, index) => row?.[7].forEach(([number, node, state]) => {
      if (!here.has(node)) here.set(node, []);
      here.get(node).push([index, number, state]);
    }));
    const { nodes } = this.store;
    const first = nodes.size > SHOWN_NODES ? (name) => nodes.get(name).state !== "lost" : () => false;  // of many, those that are lost come first
    const names = [...nodes.keys()].sort((a, b) => first(a) - first(b) || (a < b ? -1 : 1)).slice(0, SHOWN_NODES);
    const shown = new Set(names);
    for (const [name, made] of this.made) if (!shown.has(name)) made.home.remove(), this.made.delete(name);
    names.forEach((name, place) => this.node(nodes.get(name), here.get(name) ?? [], place));
    this.rest.textContent = !names.length ? "No node has registered: start one with holdfast node." : nodes.size > names.length ? `and ${nodes.size - names.length} more` : "";
    this.rest.hidden = !this.rest.textContent;
  }

  node(node, replicas, place) {
    const { picture } = this.store;
    const key = JSON.stringify([picture?.job, node, replicas]);
    let made = this.made.get(node.name);
    if (!made) this.made.set(node.name, made = { home: element("li") });
    if (this.home.children[place] !== made.home) this.home.insertBefore(made.home, this.home.children[place] ?? null);
    if (made.key === key) return;
    made.key = key;
    made.home.className = `node ${node.state}`;
    const meter = element("i");
    meter.style.width = `${Math.min(100, (100 * (node.cpu ?? 0)) / (node.cores || 1))}%`;
    const said = [
      node.cpu == null ? "CPU –" : `${node.cpu.toFixed(2)} ${node.cores ? `of ${count(node.cores)} ` : ""}cores`, bytes(node.memory_bytes),
      node.labels?.rack ? `rack ${node.labels.rack}` : null, node.stalled_s ? `silent for ${seconds(node.stalled_s)}` : null,
    ];
    fill(made.home, [
      element("div", { class: "top" }, element("b", {}, node.name), element("span", { class: `state ${node.state}` }, node.state),
        picture ? element("button", { type: "button", "aria-label": `What if ${node.name} were lost?`, onclick: () => this.lose(node.name) }, "what if it were lost?") : null),
      element("div", { class: "meter", "aria-hidden": "true" }, meter),
      element("p", { class: "note" }, said.filter(Boolean).join(" · ")),
      element("div", { class: "chips" }, ...replicas.slice(0, CHIPS).map(([index, number, state]) => this.chip(picture.tasks[index]?.name ?? "", index, number, state)),
        replicas.length > CHIPS ? element("span", { class: "note" }, `and ${replicas.length - CHIPS} more`) : null)]);
  }

  chip(name, index, number, state) {
    return element("button", { type: "button", class: `chip ${state}`, title: state, "aria-label": `${name}, ${state}`, "data-key": `${index}.${number}`, onclick: () => this.choose(index) }, name);
  }
}

// Every job with its state and what its output is worth now; there from the second job on.
export class Jobs {
  constructor(store, { follow }) {
    Object.assign(this, { store, follow });
    this.home = document.getElementById("jobs");
  }

  render() {
    const { jobs, picture } = this.store;
    document.getElementById("jobs-card").hidden = jobs.length < 2;
    fill(this.home, [...jobs.slice(0, SHOWN_JOBS).map((job) => element("li", { "data-key": `${job.id}` },
      element("button", { type: "button", class: "job", "aria-current": job.id === picture?.job ? "true" : null, onclick: () => this.follow(job.id) },
        element("b", {}, job.name), element("span", { class: "note" }, `job ${job.id}`), element("span", { class: `state ${job.state}` }, job.state),
        element("span", { class: job.quality ? `t-${job.quality}` : "note" }, mark(job.quality), job.quality ?? "no output yet")))),
    jobs.length > SHOWN_JOBS ? element("li", { class: "note" }, `and ${jobs.length - SHOWN_JOBS} more, in the list above`) : null]);
  }
}

export class Plan {
  constructor(store, { choose }) {
    Object.assign(this, { store, choose });
    this.home = document.getElementById("plan");
  }

  picture() {
    const picture = this.store.picture;
    if (!picture) return this.home.replaceChildren(element("p", { class: "empty" }, "No job is shown."));
    const { plan, tasks } = picture;
    const planned = tasks.map((task, index) => [task, index]).filter(([task]) => task.reason?.planned);
    const rows = planned.length ? planned : tasks.map((task, index) => [task, index]).slice(0, 40);
    rows.sort((a, b) => (a[0].reason?.quality_without ?? 2) - (b[0].reason?.quality_without ?? 2));
    const worth = plan.quality;
    return this.home.replaceChildren(...[
      element("p", {}, plan.summary),
      element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, "task"), element("th", {}, "why it has what it has"), worth === null ? null : element("th", {}, "worth without it"))),
        element("tbody", {}, ...rows.map(([task, index]) => element("tr", {},
          element("td", {}, element("button", { type: "button", class: "link", onclick: () => this.choose(index) }, task.name)),
          element("td", {}, task.reason?.why.join("; ") ?? ""),
          worth === null ? null : this.worth(task, worth))))),
      plan.next ? element("p", { class: "note" }, `The next unit of budget: ${plan.next.why}`) : null].filter(Boolean));
  }

  worth(task, worth) {
    const without = task.reason?.quality_without;
    if (without === null || without === undefined) return element("td", { class: "n" }, "–");
    const bar = element("i", { class: "worth", title: "what it adds" });
    bar.style.width = `${Math.round(46 * Math.max(0, worth - without))}px`;
    return element("td", { class: "n" }, without.toFixed(3), bar);
  }
}

export class Events {
  constructor(store) {
    this.store = store;
    this.home = document.getElementById("events");
    this.all = document.getElementById("events-all");
    this.all.addEventListener("change", () => this.rebuild());
    this.last = 0;
  }

  rebuild() {
    this.last = 0;
    this.home.replaceChildren();
    this.render();
  }

  render() {
    const job = this.store.picture?.job;
    const fitting = this.store.events.filter((event) => event.number > this.last && this.wanted(event, job)).slice(-SHOWN_EVENTS);
    if (this.store.events.length) this.last = Math.max(this.last, this.store.events[this.store.events.length - 1].number);
    if (!fitting.length) return;
    this.home.prepend(...fitting.reverse().map(line));
    while (this.home.childElementCount > SHOWN_EVENTS) this.home.lastElementChild.remove();
  }

  wanted(event, job) {
    if (this.all.checked) return true;
    if (event.job !== null && job && event.job !== job) return false;
    if (event.kind !== "replica") return true;
    return !["starting", "placed", "stopped"].includes(event.data?.state ?? "");
  }
}

function line(event) {
  const who = event.replica ? taskOf(event.replica) : event.job !== null && event.kind === "job" ? `job ${event.job}` : null;
  const state = event.data?.state;
  const kind = event.kind === "fault" ? "fault" : DEAD.has(state) && state !== "stopped" || / is lost/.test(event.text) ? "bad" : state === "running" || / is back/.test(event.text) ? "good" : "";
  const where = event.replica && event.node ? ` on ${event.node}` : "";
  return element("li", {}, element("time", {}, clock(event.at_s)), element("span", { class: kind }, who ? element("b", {}, `${who}${where} `) : null, event.text));
}

export function legend() {
  document.getElementById("legend").replaceChildren(...QUALITIES.map((quality) => element("li", { title: MEANS[quality] }, mark(quality), quality)));
  document.getElementById("help-marks").replaceChildren(...QUALITIES.flatMap((quality) => [element("dt", {}, mark(quality), quality), element("dd", {}, MEANS[quality])]));
}
