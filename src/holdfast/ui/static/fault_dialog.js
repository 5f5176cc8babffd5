// The dialog that injects a fault: choose a fault and its target, read the consequences, confirm.

import { sentencesOf } from "./detail.js";
import { element } from "./dom.js";
import { DEAD_STATES } from "./format.js";

// The fault, its description, the kind of its target, and its settings.
const FAULTS = [
  ["crash-pe", "Kill a replica", "replica"],
  ["stall-pe", "Stall a replica", "replica", "for"],
  ["slow-pe", "Slow a replica", "replica", "for", "by"],
  ["crash-host", "Kill a PE host, with every replica on it", "node"],
  ["stall-host", "Stall a PE host", "node", "for"],
  ["crash-node", "Kill a node: its controller and its PE host", "node"],
  ["cut-node", "Cut a node off the orchestrator", "node", "for"],
];
const CUT_CONSEQUENCES = "Data continues to flow. The orchestrator receives no beats, considers the node lost and starts its replicas on other nodes. When the node is back, it keeps the replicas that are still assigned to it.";
const STALL_CONSEQUENCES = "When the replica has been silent for longer than the contract's patience, another replica commits instead. Without another replica, readers wait or continue without it, as the contract says.";

export class FaultDialog {
  constructor(store, { whatIf, inject, onInjected }) {
    Object.assign(this, { store, whatIf, inject, onInjected });
    this.dialog = document.getElementById("fault-dialog");
    this.field = Object.fromEntries(["kind", "replica", "node", "for", "by", "confirm", "error", "inject", "consequences"].map((name) => [name, document.getElementById(`fault-${name}`)]));
    this.field.kind.replaceChildren(...FAULTS.map(([value, text]) => element("option", { value }, text)));
    for (const name of ["kind", "replica", "node"]) this.field[name].addEventListener("change", () => this.update());
    this.field.confirm.addEventListener("change", () => this.updateButton());
    document.getElementById("fault-cancel").addEventListener("click", () => this.dialog.close());
    document.getElementById("fault-form").addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
  }

  open(fault = "crash-pe", { replica, node } = {}) {
    const allowed = !!this.store.hello?.faults && !!this.store.picture;
    document.getElementById("fault-off").hidden = !!this.store.hello?.faults;
    document.getElementById("fault-fields").hidden = !allowed;
    this.field.kind.value = fault;
    this.fillTargets(replica, node);
    this.update();
    this.dialog.showModal();
  }

  fillTargets(replica, node) {
    const { picture, rows, nodes } = this.store;
    const replicas = (picture?.tasks ?? []).flatMap((task, index) => (rows[index]?.[7] ?? []).filter(([, , state]) => !DEAD_STATES.has(state))
      .map(([number, at, , rank]) => [`${picture.job}:${task.name}.${number}`, `${task.name} on ${at} (${rank === 0 ? "primary" : "secondary"})`]));
    this.field.replica.replaceChildren(...replicas.map(([value, text]) => element("option", { value }, text)));
    this.field.node.replaceChildren(...[...nodes.values()].filter((each) => each.state !== "lost").map((each) => element("option", { value: each.name }, each.name)));
    if (replica) this.field.replica.value = replica;
    if (node) this.field.node.value = node;
  }

  selectedFault() {
    return FAULTS.find(([value]) => value === this.field.kind.value);
  }

  // The key of the replica or the name of the node, or null if there is none.
  target() {
    return this.field[this.selectedFault()[2]].value || null;
  }

  // The target without the number of its job.
  targetName() {
    return this.target()?.replace(/^\d+:/, "");
  }

  // Show the fields and the consequences of the selected fault, and ask for confirmation again.
  async update() {
    const [fault, , targetKind, ...settings] = this.selectedFault();
    for (const name of ["replica", "node", "for", "by"]) {
      const used = name === targetKind || settings.includes(name);
      document.getElementById(`fault-${name}-row`).hidden = this.field[name].disabled = !used;  // a disabled field is not validated
    }
    this.field.confirm.checked = false;
    this.field.error.textContent = "";
    this.updateButton();
    const target = this.target(), { consequences } = this.field;
    document.getElementById("fault-confirm-text").textContent = target ? `I confirm: this fault hits ${this.targetName()}, a real process.` : "I confirm.";
    const round = this.round = (this.round ?? 0) + 1;
    if (!target) return consequences.replaceChildren("There is no target for this fault.");
    if (fault === "cut-node") return consequences.replaceChildren(element("p", {}, CUT_CONSEQUENCES));
    if (fault === "slow-pe" || fault.startsWith("stall")) {
      consequences.replaceChildren(element("p", {}, STALL_CONSEQUENCES));
      if (fault !== "stall-host") return undefined;
    }
    const answer = await this.whatIf(targetKind, target);
    if (round === this.round) consequences.replaceChildren(answer ? sentencesOf(answer) : "The consequences are not known at the moment.");
    return undefined;
  }

  updateButton() {
    const verb = this.selectedFault()[1].split(" ")[0];
    this.field.inject.disabled = !(this.field.confirm.checked && this.target());
    this.field.inject.textContent = this.target() ? `${verb} ${this.targetName()}` : "Inject";
  }

  async submit() {
    const [fault, , targetKind, ...settings] = this.selectedFault();
    const body = { fault, [targetKind === "replica" ? "pe" : "node"]: this.target(), settings: {} };
    for (const name of settings) body.settings[`${name}_s`] = Number(this.field[name].value);
    this.field.inject.disabled = true;
    try {
      await this.inject(body);
      this.dialog.close();
      this.onInjected(`${fault} ${this.targetName()}`);
    } catch (error) {
      this.field.error.textContent = error.message;
      this.updateButton();
    }
  }
}
