// The chosen task: how it is doing, where its replicas are, why they are there, and what would follow without them.

import { DEAD, count, element, fill, mark, seconds } from "./words.js";

export class Detail {
  constructor(store, { whatIf, strike, show }) {
    Object.assign(this, { store, whatIf, strike, show });
    this.home = document.getElementById("detail");
    this.index = -1;
    this.loss = null;
    this.foreseen = new Map();
  }

  choose(index) {
    this.index = index;
    this.loss = null;
    this.foreseen.clear();
    this.parts = null;
    this.render();
    if (index >= 0) this.foresee();
  }

  // What would follow if a node were lost, in place of a task.
  lose(loss, answer) {
    this.loss = { loss, answer };
    this.index = -1;
    this.parts = null;
    this.render();
  }

  async foresee() {
    const { index, store } = this;
    const task = store.picture.tasks[index], row = store.rows[index];
    const asks = [["task", task.name], ...(row?.[7] ?? []).slice(0, 4).map(([number]) => ["replica", `${store.picture.job}:${task.name}.${number}`])];
    for (const [kind, name] of asks) {
      const answer = await this.whatIf(kind, name);
      if (this.index !== index) return;
      if (answer) this.foreseen.set(`${kind}:${name}`, answer);
    }
    this.parts = null;
    this.render();
  }

  render() {
    const open = !!this.loss || this.index >= 0;
    if (document.getElementById("stage").classList.contains("open") !== open) document.getElementById("stage").classList.toggle("open", open);
    if (this.loss) return this.renderLoss();
    const task = this.store.picture?.tasks[this.index];
    if (!task) return this.renderNothing();
    const row = this.store.rows[this.index];
    const key = JSON.stringify([this.index, row, this.foreseen.size]);
    if (key === this.parts) return undefined;
    this.parts = key;
    fill(this.home, this.about(task, row));
    return undefined;
  }

  renderNothing() {
    this.parts = null;
    this.home.replaceChildren();
  }

  renderLoss() {
    const { loss, answer } = this.loss;
    this.parts = null;
    fill(this.home, [
      element("h2", {}, `If ${loss} were lost now`),
      element("p", { class: "note" }, `${answer.affected.length} tasks struck: ${answer.continues.length} go on, ${answer.late.length} are late, ${answer.down.length} stop.`),
      saying(answer),
      element("p", {}, element("button", { type: "button", class: "link", onclick: () => this.show(-1) }, "Let go of this (Esc)")),
    ]);
  }

  about(task, row) {
    const [state, quality, live, clean, lag, rate, latency, replicas] = row ?? ["none", null, null, null, null, null, null, []];
    const behind = live !== null && clean !== null && clean < live ? `; exact up to epoch ${clean}` : "";
    return [
      element("div", { class: "head" }, element("h2", {}, task.name), element("span", { class: "grow" }),
        element("button", { type: "button", class: "round", "aria-label": "Close", "data-key": "close", onclick: () => this.show(-1) }, "×")),
      element("p", { class: "note" }, described(task)),
      element("p", { class: `t-${quality}` }, mark(quality), quality ? `${quality}${behind}` : state),
      element("dl", { class: "facts" }, ...[["epoch", live ?? "–"], ["lag", seconds(lag)], ["rows/s", count(rate)], ["latency", seconds(latency)]]
        .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value))))),
      element("h3", {}, replicas.length > 1 ? `${replicas.length} replicas` : "Its only copy"),
      ...replicas.map((replica) => this.replica(task, replica)),
      element("h3", {}, "Why"),
      this.why(task),
      element("h3", {}, "What if it were not there"),
      this.without(task),
    ];
  }

  replica(task, [number, node, state, rank, active, incarnation, failures, error, live, lag]) {
    const key = `${this.store.picture.job}:${task.name}.${number}`;
    const answer = this.foreseen.get(`replica:${key}`);
    const role = rank === 0 ? "primary" : "secondary";
    return element("div", { class: "replica" },
      element("div", { class: "top" },
        element("b", {}, node), element("span", { class: `state ${state}` }, state),
        element("span", { class: "note" }, `${role}${active ? "" : ", inactive"}${incarnation > 1 ? `, start ${incarnation}` : ""}`),
        element("span", { class: "grow" }),
        element("button", { type: "button", class: "danger", "aria-label": `Kill ${task.name} on ${node}`, "data-key": `kill ${key}`, disabled: !this.store.hello?.faults || this.store.gone || DEAD.has(state), onclick: () => this.strike("crash-pe", { replica: key }) }, "kill")),
      element("p", { class: "note" }, [live === null ? null : `epoch ${live}`, lag ? `${seconds(lag)} behind` : null, failures ? `${failures} failures in a row` : null].filter(Boolean).join(" · ")),
      error ? element("p", { class: "wrong" }, error) : null,
      answer ? element("p", { class: "note" }, `Without it: ${brief(answer)}`) : null);
  }

  why(task) {
    const reason = task.reason;
    if (!reason) return element("p", { class: "note" }, "Nothing is said of it.");
    const worth = this.store.picture.plan.quality;
    const lines = reason.why.map((why) => element("p", {}, why));
    if (reason.quality_without !== null && worth !== null) {
      lines.push(element("p", { class: "note" }, `Without its replica the plan's worth falls from ${worth.toFixed(3)} to ${reason.quality_without.toFixed(3)}.`));
    }
    if (task.late) lines.push(element("p", { class: "note" }, task.late));
    return element("div", { class: "whys" }, ...lines);
  }

  without(task) {
    const answer = this.foreseen.get(`task:${task.name}`);
    return answer ? saying(answer) : element("p", { class: "note" }, this.store.gone ? "Its job has ended: nothing would follow." : "…");
  }
}

function described(task) {
  const what = task.kind === "operators" && task.operators.length ? `runs ${task.operators.join(", ")}` : task.kind;
  const reads = task.reads.length ? ` · reads ${task.reads.join(", ")}` : "";
  return `${what}${reads}${task.makes.length ? ` · makes ${task.makes.join(", ")}` : ""}`;
}

function brief(answer) {
  if (answer.down.length) return answer.outputs.length ? `it stops, and that reaches ${answer.outputs.join(", ")}` : "it stops";
  if (answer.late.length) return "it goes on after catching up";
  return answer.continues.length ? "nothing is lost, the other goes on" : "nothing changes";
}

export function saying(answer) {
  return element("div", { class: "said" }, ...answer.sentences.map((text) => {
    const name = text.slice(0, text.indexOf(":"));
    const kind = answer.down.includes(name) ? "worse" : answer.continues.includes(name) ? "better" : answer.late.includes(name) || /^After|^Affected/.test(text) ? "late" : "";
    return element("p", { class: kind }, text);
  }));
}
