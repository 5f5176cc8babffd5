// Injecting a fault: whom, what will follow, a confirmation, and then the orchestrator's own call for it.

import { saying } from "./detail.js";
import { DEAD, element } from "./words.js";

const KINDS = [
  ["crash-pe", "Kill a replica", "replica"],
  ["stall-pe", "Stall a replica", "replica", "for"],
  ["slow-pe", "Slow a replica", "replica", "for", "by"],
  ["crash-host", "Kill a PE host, with every replica on it", "node"],
  ["stall-host", "Stall a PE host", "node", "for"],
  ["crash-node", "Kill a node: its controller and its PE host", "node"],
  ["cut-node", "Cut a node off the orchestrator", "node", "for"],
];

export class Strike {
  constructor(store, { whatIf, inject, said }) {
    Object.assign(this, { store, whatIf, inject, said });
    this.dialog = document.getElementById("fault-dialog");
    this.field = Object.fromEntries(["kind", "replica", "node", "for", "by", "sure", "wrong", "strike", "foreseen"].map((name) => [name, document.getElementById(`fault-${name}`)]));
    this.field.kind.replaceChildren(...KINDS.map(([value, text]) => element("option", { value }, text)));
    for (const name of ["kind", "replica", "node"]) this.field[name].addEventListener("change", () => this.changed());
    this.field.sure.addEventListener("change", () => this.ready());
    document.getElementById("fault-cancel").addEventListener("click", () => this.dialog.close());
    document.getElementById("fault-form").addEventListener("submit", (event) => { event.preventDefault(); this.go(); });
  }

  open(kind = "crash-pe", { replica, node } = {}) {
    const allowed = !!this.store.hello?.faults && !!this.store.picture;
    document.getElementById("fault-off").hidden = !!this.store.hello?.faults;
    document.getElementById("fault-fields").hidden = !allowed;
    this.field.kind.value = kind;
    this.fill(replica, node);
    this.changed();
    this.dialog.showModal();
  }

  fill(replica, node) {
    const { picture, rows, nodes } = this.store;
    const living = (picture?.tasks ?? []).flatMap((task, index) => (rows[index]?.[7] ?? []).filter(([, , state]) => !DEAD.has(state))
      .map(([number, at, , rank]) => [`${picture.job}:${task.name}.${number}`, `${task.name} on ${at} (${rank === 0 ? "primary" : "secondary"})`]));
    this.field.replica.replaceChildren(...living.map(([value, text]) => element("option", { value }, text)));
    this.field.node.replaceChildren(...[...nodes.values()].filter((each) => each.state !== "lost").map((each) => element("option", { value: each.name }, each.name)));
    if (replica) this.field.replica.value = replica;
    if (node) this.field.node.value = node;
  }

  kind() {
    return KINDS.find(([value]) => value === this.field.kind.value);
  }

  async changed() {
    const kind = this.kind();
    for (const name of ["replica", "node", "for", "by"]) {
      document.getElementById(`fault-${name}-row`).hidden = this.field[name].disabled = !kind.includes(name);  // what cannot be seen must not be found wrong
    }
    this.field.sure.checked = false;
    this.field.wrong.textContent = "";
    this.ready();
    const whom = this.whom();
    document.getElementById("fault-sure-said").textContent = `I mean it: this strikes ${whom?.replace(/^\d+:/, "") ?? "nobody"}, a real process.`;
    const round = this.round = (this.round ?? 0) + 1;
    if (!whom) return this.field.foreseen.replaceChildren("There is nobody to strike.");
    if (kind[0] === "cut-node") {
      return this.field.foreseen.replaceChildren(element("p", {}, "Data keeps flowing. Without its beats the orchestrator counts the node as lost and starts its replicas elsewhere; when it is back it keeps what is still its own."));
    }
    if (kind[0] === "slow-pe" || kind[0].startsWith("stall")) {
      this.field.foreseen.replaceChildren(element("p", {}, "Another replica writes in its place once it has been silent for the contract's patience; without one, consumers wait, or go on without it as the contract says."));
      if (kind[0] !== "stall-host") return undefined;
    }
    const answer = await this.whatIf(kind[2], whom);
    if (round === this.round) this.field.foreseen.replaceChildren(answer ? saying(answer) : "It cannot be foreseen just now.");
    return undefined;
  }

  whom() {
    return this.field[this.kind()[2]].value || null;
  }

  ready() {
    const kind = this.kind();
    this.field.strike.disabled = !(this.field.sure.checked && this.whom());
    this.field.strike.textContent = this.whom() ? `${kind[1].split(" ")[0]} ${this.whom().replace(/^\d+:/, "")}` : "Strike";
  }

  async go() {
    const [fault, , target, ...rest] = this.kind();
    const body = { fault, [target === "replica" ? "pe" : "node"]: this.whom(), settings: {} };
    for (const name of rest) body.settings[`${name}_s`] = Number(this.field[name].value);
    this.field.strike.disabled = true;
    try {
      await this.inject(body);
      this.dialog.close();
      this.said(`${fault} ${this.whom().replace(/^\d+:/, "")}`);
    } catch (error) {
      this.field.wrong.textContent = error.message;
      this.ready();
    }
  }
}
