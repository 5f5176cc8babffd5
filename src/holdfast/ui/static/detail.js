// The selected task: its state, its replicas, why it has them, and what would happen if they failed.

import { element, qualityMark, updateChildren } from "./dom.js";
import { DEAD_STATES, formatCount, formatSeconds } from "./format.js";

export class Detail {
  constructor(store, { whatIf, openFaultDialog, selectTask }) {
    Object.assign(this, { store, whatIf, openFaultDialog, selectTask });
    this.root = document.getElementById("detail");
    this.index = -1;
    this.loss = null;
    this.answers = new Map();
  }

  showTask(index) {
    this.index = index;
    this.loss = null;
    this.answers.clear();
    this.renderedKey = null;
    this.render();
    if (index >= 0) this.askWhatIf();
  }

  // Show the consequences of losing a node, instead of a task.
  showLoss(node, answer) {
    this.loss = { node, answer };
    this.index = -1;
    this.renderedKey = null;
    this.render();
  }

  async askWhatIf() {
    const { index, store } = this;
    const task = store.picture.tasks[index], row = store.rows[index];
    const questions = [["task", task.name], ...(row?.[7] ?? []).slice(0, 4).map(([number]) => ["replica", `${store.picture.job}:${task.name}.${number}`])];
    for (const [kind, name] of questions) {
      const answer = await this.whatIf(kind, name);
      if (this.index !== index) return;
      if (answer) this.answers.set(`${kind}:${name}`, answer);
    }
    this.renderedKey = null;
    this.render();
  }

  render() {
    const open = !!this.loss || this.index >= 0;
    if (document.getElementById("stage").classList.contains("open") !== open) document.getElementById("stage").classList.toggle("open", open);
    if (this.loss) return this.renderLoss();
    const task = this.store.picture?.tasks[this.index];
    if (!task) return this.clear();
    const row = this.store.rows[this.index];
    const key = JSON.stringify([this.index, row, this.answers.size]);
    if (key === this.renderedKey) return undefined;
    this.renderedKey = key;
    updateChildren(this.root, this.describe(task, row));
    return undefined;
  }

  clear() {
    this.renderedKey = null;
    this.root.replaceChildren();
  }

  renderLoss() {
    const { node, answer } = this.loss;
    this.renderedKey = null;
    updateChildren(this.root, [
      element("h2", {}, `If ${node} were lost now`),
      element("p", { class: "note" }, `${answer.affected.length} tasks are affected: ${answer.continues.length} continue, ${answer.late.length} are late, ${answer.down.length} stop.`),
      sentencesOf(answer),
      element("p", {}, element("button", { type: "button", class: "link", onclick: () => this.selectTask(-1) }, "Close (Esc)")),
    ]);
  }

  describe(task, row) {
    const [state, quality, live, clean, lag, rate, latency, replicas] = row ?? ["none", null, null, null, null, null, null, []];
    const behind = live !== null && clean !== null && clean < live ? `; exact up to epoch ${clean}` : "";
    return [
      element("div", { class: "head" }, element("h2", {}, task.name), element("span", { class: "grow" }),
        element("button", { type: "button", class: "round", "aria-label": "Close", "data-key": "close", onclick: () => this.selectTask(-1) }, "×")),
      element("p", { class: "note" }, summaryOf(task)),
      element("p", { class: `t-${quality}` }, qualityMark(quality), quality ? `${quality}${behind}` : state),
      element("dl", { class: "facts" }, ...[["epoch", live ?? "–"], ["lag", formatSeconds(lag)], ["rows/s", formatCount(rate)], ["latency", formatSeconds(latency)]]
        .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value))))),
      element("h3", {}, replicas.length > 1 ? `${replicas.length} replicas` : "1 replica"),
      ...replicas.map((replica) => this.renderReplica(task, replica)),
      element("h3", {}, "Reason"),
      this.renderReason(task),
      element("h3", {}, "If all its replicas failed"),
      this.renderLossOfTask(task),
    ];
  }

  renderReplica(task, [number, node, state, rank, active, incarnation, failures, error, live, lag, behind]) {
    const key = `${this.store.picture.job}:${task.name}.${number}`;
    const answer = this.answers.get(`replica:${key}`);
    const role = rank === 0 ? "primary" : "secondary";
    return element("div", { class: "replica" },
      element("div", { class: "top" },
        element("b", {}, node), element("span", { class: `state ${state}` }, state),
        element("span", { class: "note" }, `${role}${active ? "" : ", inactive"}${incarnation > 1 ? `, start ${incarnation}` : ""}`),
        element("span", { class: "grow" }),
        element("button", { type: "button", class: "danger", "aria-label": `Kill ${task.name} on ${node}`, "data-key": `kill ${key}`, disabled: !this.store.hello?.faults || this.store.ended || DEAD_STATES.has(state), onclick: () => this.openFaultDialog("crash-pe", { replica: key }) }, "kill")),
      element("p", { class: "note" }, [live === null ? null : `epoch ${live}`, lag ? `${formatSeconds(lag)} late` : null, behind ? `${formatCount(behind)} rows behind` : null, failures ? `${failures} failures in a row` : null].filter(Boolean).join(" · ")),
      error ? element("p", { class: "error" }, error) : null,
      answer ? element("p", { class: "note" }, `If it failed: ${shortAnswer(answer)}`) : null);
  }

  renderReason(task) {
    const reason = task.reason;
    if (!reason) return element("p", { class: "note" }, "No reason is known.");
    const quality = this.store.picture.plan.quality;
    const lines = reason.why.map((why) => element("p", {}, why));
    if (reason.quality_without !== null && quality !== null) {
      lines.push(element("p", { class: "note" }, `Without its replica the plan's quality falls from ${quality.toFixed(3)} to ${reason.quality_without.toFixed(3)}.`));
    }
    if (task.late) lines.push(element("p", { class: "note" }, task.late));
    return element("div", { class: "reasons" }, ...lines);
  }

  renderLossOfTask(task) {
    const answer = this.answers.get(`task:${task.name}`);
    return answer ? sentencesOf(answer) : element("p", { class: "note" }, this.store.ended ? "The job has ended, so nothing would happen." : "…");
  }
}

function summaryOf(task) {
  const purpose = task.kind === "operators" && task.operators.length ? `runs ${task.operators.join(", ")}` : task.kind;
  const reads = task.reads.length ? ` · reads ${task.reads.join(", ")}` : "";
  return `${purpose}${reads}${task.makes.length ? ` · produces ${task.makes.join(", ")}` : ""}`;
}

function shortAnswer(answer) {
  if (answer.down.length) return answer.outputs.length ? `the task stops, which affects ${answer.outputs.join(", ")}` : "the task stops";
  if (answer.late.length) return "the task continues after another replica has caught up";
  return answer.continues.length ? "another replica continues and nothing is lost" : "nothing changes";
}

// The sentences of an answer, coloured by how bad they are.
export function sentencesOf(answer) {
  return element("div", { class: "sentences" }, ...answer.sentences.map((text) => {
    const name = text.slice(0, text.indexOf(":"));
    const kind = answer.down.includes(name) ? "worse" : answer.continues.includes(name) ? "better" : answer.late.includes(name) || /^After|^Affected/.test(text) ? "late" : "";
    return element("p", { class: kind }, text);
  }));
}
