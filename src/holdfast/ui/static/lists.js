// The lists below the graph: tasks, nodes, jobs, the plan and events.

import { element, qualityMark, updateChildren } from "./dom.js";
import { DEAD_STATES, QUALITIES, QUALITY_MEANINGS, formatBytes, formatClock, formatCount, formatSeconds, taskOf } from "./format.js";

const ROW_HEIGHT = 36, MAX_EVENTS = 150, MAX_NODES = 100, MAX_JOBS = 60, MAX_CHIPS = 24;

// The tasks. Only the rows in view exist as elements.
export class Tasks {
  constructor(store, { selectTask, openTask }) {
    Object.assign(this, { store, selectTask, openTask });
    this.root = document.getElementById("tasks");
    this.filter = document.getElementById("filter");
    this.selected = -1;
    this.pool = new Map();
    this.order = [];
    this.header = element("div", { class: "row top", "aria-hidden": "true" }, ...["task", "quality", "epoch", "lag", "rows/s", "nodes"].map((name, k) => element("span", { class: k > 1 && k < 5 ? "r" : "" }, name)));
    this.space = element("div", {});
    this.root.append(this.header, this.space);
    this.root.addEventListener("scroll", () => this.render());
    this.filter.addEventListener("input", () => { this.applyFilter(); this.root.scrollTop = 0; this.render(); });
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
  }

  picture() {
    for (const row of this.pool.values()) row.root.remove();
    this.pool.clear();
    this.applyFilter();
    this.render();
  }

  // Keep the tasks whose name, quality, state or nodes contain the filter's text.
  applyFilter() {
    const text = this.filter.value.trim().toLowerCase();
    const matches = (task, index) => {
      const [state, quality, , , , , , replicas] = this.store.rows[index] ?? [];
      return [task.name, quality, state, ...(replicas ?? []).map(([, node]) => node)].some((each) => each?.toLowerCase().includes(text));
    };
    this.order = (this.store.picture?.tasks ?? []).flatMap((task, index) => (!text || matches(task, index) ? [index] : []));
    this.space.style.height = `${this.order.length * ROW_HEIGHT}px`;
  }

  handleKey(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const at = this.order.indexOf(this.selected) + (event.key === "ArrowDown" ? 1 : -1);
    const index = this.order[Math.max(0, Math.min(this.order.length - 1, at))];
    if (index !== undefined) this.selectTask(index), this.reveal(index);
  }

  reveal(index) {
    const top = this.order.indexOf(index) * ROW_HEIGHT;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (top + 2 * ROW_HEIGHT > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = top + 2 * ROW_HEIGHT - this.root.clientHeight;
  }

  render() {
    if (!this.store.picture) return;
    if (this.filter.value) this.applyFilter();
    const first = Math.max(0, Math.floor(this.root.scrollTop / ROW_HEIGHT) - 1);
    const last = Math.min(this.order.length, first + Math.ceil(this.root.clientHeight / ROW_HEIGHT) + 2);
    const shown = new Set();
    for (let place = first; place < last; place++) {
      const index = this.order[place];
      shown.add(index);
      this.renderRow(index, place);
    }
    for (const [index, row] of this.pool) if (!shown.has(index)) row.root.remove(), this.pool.delete(index);
    const selected = this.pool.get(this.selected);
    this.root.setAttribute("aria-activedescendant", selected ? selected.root.id : "");
  }

  renderRow(index, place) {
    let row = this.pool.get(index);
    if (!row) {
      const cells = ["", "", "r", "r", "r", ""].map((kind) => element("span", { class: kind }));
      const root = element("div", { class: "row", role: "option", id: `task-${index}`, onclick: () => this.openTask(index) }, ...cells);
      row = { root, cells, texts: [] };
      this.pool.set(index, row);
      this.root.append(root);
    }
    const data = this.store.rows[index];
    const quality = data?.[1] ?? null;
    const texts = [this.store.picture.tasks[index].name, quality ?? data?.[0] ?? "–", data?.[2] ?? "–", formatSeconds(data?.[4] ?? null), formatCount(data?.[5] ?? null),
      (data?.[7] ?? []).map(([, node, state]) => (DEAD_STATES.has(state) ? `${node} (${state})` : node)).join(" ")];
    texts.forEach((text, k) => {
      if (row.texts[k] === text) return;
      row.texts[k] = text;
      if (k === 1) row.cells[k].replaceChildren(qualityMark(quality), String(text)), row.cells[k].className = quality ? `t-${quality}` : "";
      else row.cells[k].textContent = text;
    });
    const top = `${(place + 1) * ROW_HEIGHT}px`;
    if (row.root.style.top !== top) row.root.style.top = top, row.root.setAttribute("aria-posinset", place + 1);
    row.root.setAttribute("aria-setsize", this.order.length);
    row.root.classList.toggle("selected", index === this.selected);
    row.root.setAttribute("aria-selected", index === this.selected);
    row.root.dataset.state = data?.[0] ?? "";
  }
}

export class Nodes {
  constructor(store, { showLoss, openTask }) {
    Object.assign(this, { store, showLoss, openTask });
    this.root = document.getElementById("nodes");
    this.rest = document.getElementById("nodes-rest");
    this.items = new Map();
  }

  render() {
    const replicas = new Map();
    this.store.rows.forEach((row, index) => row?.[7].forEach(([number, node, state]) => {
      if (!replicas.has(node)) replicas.set(node, []);
      replicas.get(node).push([index, number, state]);
    }));
    const { nodes } = this.store;
    const rank = nodes.size > MAX_NODES ? (name) => nodes.get(name).state !== "lost" : () => false;  // if not all nodes fit, lost ones come first
    const names = [...nodes.keys()].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1)).slice(0, MAX_NODES);
    const shown = new Set(names);
    for (const [name, item] of this.items) if (!shown.has(name)) item.root.remove(), this.items.delete(name);
    names.forEach((name, place) => this.renderNode(nodes.get(name), replicas.get(name) ?? [], place));
    this.rest.textContent = !names.length ? "No node has registered. Start one with holdfast node." : nodes.size > names.length ? `and ${nodes.size - names.length} more` : "";
    this.rest.hidden = !this.rest.textContent;
  }

  renderNode(node, replicas, place) {
    const { picture } = this.store;
    const key = JSON.stringify([picture?.job, node, replicas]);
    let item = this.items.get(node.name);
    if (!item) this.items.set(node.name, item = { root: element("li") });
    if (this.root.children[place] !== item.root) this.root.insertBefore(item.root, this.root.children[place] ?? null);
    if (item.key === key) return;
    item.key = key;
    item.root.className = `node ${node.state}`;
    const meter = element("i");
    meter.style.width = `${Math.min(100, (100 * (node.cpu ?? 0)) / (node.cores || 1))}%`;
    const facts = [
      node.cpu == null ? "CPU –" : `${node.cpu.toFixed(2)} ${node.cores ? `of ${formatCount(node.cores)} ` : ""}cores`, formatBytes(node.memory_bytes),
      node.labels?.rack ? `rack ${node.labels.rack}` : null, node.stalled_s ? `silent for ${formatSeconds(node.stalled_s)}` : null,
    ];
    updateChildren(item.root, [
      element("div", { class: "top" }, element("b", {}, node.name), element("span", { class: `state ${node.state}` }, node.state),
        picture ? element("button", { type: "button", "aria-label": `What if ${node.name} were lost?`, onclick: () => this.showLoss(node.name) }, "what if it were lost?") : null),
      element("div", { class: "meter", "aria-hidden": "true" }, meter),
      element("p", { class: "note" }, facts.filter(Boolean).join(" · ")),
      element("div", { class: "chips" }, ...replicas.slice(0, MAX_CHIPS).map(([index, number, state]) => this.chip(picture.tasks[index]?.name ?? "", index, number, state)),
        replicas.length > MAX_CHIPS ? element("span", { class: "note" }, `and ${replicas.length - MAX_CHIPS} more`) : null)]);
  }

  chip(name, index, number, state) {
    return element("button", { type: "button", class: `chip ${state}`, title: state, "aria-label": `${name}, ${state}`, "data-key": `${index}.${number}`, onclick: () => this.openTask(index) }, name);
  }
}

// All jobs with their states and the quality of their output. The list is hidden if there is only one job.
export class Jobs {
  constructor(store, { followJob }) {
    Object.assign(this, { store, followJob });
    this.root = document.getElementById("jobs");
  }

  render() {
    const { jobs, picture } = this.store;
    document.getElementById("jobs-card").hidden = jobs.length < 2;
    updateChildren(this.root, [...jobs.slice(0, MAX_JOBS).map((job) => element("li", { "data-key": `${job.id}` },
      element("button", { type: "button", class: "job", "aria-current": job.id === picture?.job ? "true" : null, onclick: () => this.followJob(job.id) },
        element("b", {}, job.name), element("span", { class: "note" }, `job ${job.id}`), element("span", { class: `state ${job.state}` }, job.state),
        element("span", { class: job.quality ? `t-${job.quality}` : "note" }, qualityMark(job.quality), job.quality ?? "no output yet")))),
    jobs.length > MAX_JOBS ? element("li", { class: "note" }, `and ${jobs.length - MAX_JOBS} more in the menu above`) : null]);
  }
}

// The plan: the tasks that it names and why, or all tasks if it names none.
export class Plan {
  constructor(store, { openTask }) {
    Object.assign(this, { store, openTask });
    this.root = document.getElementById("plan");
  }

  picture() {
    const picture = this.store.picture;
    if (!picture) return this.root.replaceChildren(element("p", { class: "empty" }, "No job is selected."));
    const { plan, tasks } = picture;
    const planned = tasks.map((task, index) => [task, index]).filter(([task]) => task.reason?.planned);
    const rows = planned.length ? planned : tasks.map((task, index) => [task, index]).slice(0, 40);
    rows.sort((a, b) => (a[0].reason?.quality_without ?? 2) - (b[0].reason?.quality_without ?? 2));
    const { quality } = plan;
    return this.root.replaceChildren(...[
      element("p", {}, plan.summary),
      element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, "task"), element("th", {}, "why it has these replicas"), quality === null ? null : element("th", {}, "quality without it"))),
        element("tbody", {}, ...rows.map(([task, index]) => element("tr", {},
          element("td", {}, element("button", { type: "button", class: "link", onclick: () => this.openTask(index) }, task.name)),
          element("td", {}, task.reason?.why.join("; ") ?? ""),
          quality === null ? null : this.qualityCell(task, quality))))),
      plan.next ? element("p", { class: "note" }, `With one more unit of budget: ${plan.next.why}`) : null].filter(Boolean));
  }

  qualityCell(task, quality) {
    const without = task.reason?.quality_without;
    if (without === null || without === undefined) return element("td", { class: "n" }, "–");
    const bar = element("i", { class: "gain", title: "what its replica adds" });
    bar.style.width = `${Math.round(46 * Math.max(0, quality - without))}px`;
    return element("td", { class: "n" }, without.toFixed(3), bar);
  }
}

// The events of the job that is shown, newest first.
export class Events {
  constructor(store) {
    this.store = store;
    this.root = document.getElementById("events");
    this.all = document.getElementById("events-all");
    this.all.addEventListener("change", () => this.rebuild());
    this.last = 0;
  }

  rebuild() {
    this.last = 0;
    this.root.replaceChildren();
    this.render();
  }

  render() {
    const job = this.store.picture?.job;
    const newEvents = this.store.events.filter((event) => event.number > this.last && this.isShown(event, job)).slice(-MAX_EVENTS);
    if (this.store.events.length) this.last = Math.max(this.last, this.store.events[this.store.events.length - 1].number);
    if (!newEvents.length) return;
    this.root.prepend(...newEvents.reverse().map(eventLine));
    while (this.root.childElementCount > MAX_EVENTS) this.root.lastElementChild.remove();
  }

  isShown(event, job) {
    if (this.all.checked) return true;
    if (event.job !== null && job && event.job !== job) return false;
    if (event.kind !== "replica") return true;
    return !["starting", "placed", "stopped"].includes(event.data?.state ?? "");
  }
}

function eventLine(event) {
  const who = event.replica ? taskOf(event.replica) : event.job !== null && event.kind === "job" ? `job ${event.job}` : null;
  const state = event.data?.state;
  const kind = event.kind === "fault" ? "fault" : DEAD_STATES.has(state) && state !== "stopped" || / is lost/.test(event.text) ? "bad" : state === "running" || / is back/.test(event.text) ? "good" : "";
  const where = event.replica && event.node ? ` on ${event.node}` : "";
  return element("li", {}, element("time", {}, formatClock(event.at_s)), element("span", { class: kind }, who ? element("b", {}, `${who}${where} `) : null, event.text));
}

export function renderLegend() {
  document.getElementById("legend").replaceChildren(...QUALITIES.map((quality) => element("li", { title: QUALITY_MEANINGS[quality] }, qualityMark(quality), quality)));
  document.getElementById("help-marks").replaceChildren(...QUALITIES.flatMap((quality) => [element("dt", {}, qualityMark(quality), quality), element("dd", {}, QUALITY_MEANINGS[quality])]));
}
