// All that the page knows. Every list is bounded: a page that stays open for days holds no more than one just opened.

import { QUALITIES, DEAD, taskOf } from "./words.js";

export const TICKS = 26;
const SAMPLES = 900, EVENTS = 1000, OUTAGES = 300, FAULTS = 200;
const NONE = 255;

export class Store {
  constructor() {
    this.hello = null;
    this.jobs = [];
    this.nodes = new Map();
    this.events = [];
    this.newest = 0;
    this.clear();
    this.dirty = new Set();
    this.frames = 0;
    this.heard = [0, performance.now()];
  }

  // Forget what belongs to one job.
  clear() {
    this.picture = null;
    this.gone = false;
    this.rows = [];
    this.ticks = [];
    this.moved = new Set();
    this.samples = [];
    this.outages = [];
    this.open = new Map();
    this.recovered = 0;
    this.faults = [];
    this.changed = new Set();
  }

  // The server's clock, now.
  now() {
    const past = this.hello?.past;
    const speed = past ? (past.playing ? past.speed : 0) : 1;
    const at = this.heard[0] + ((performance.now() - this.heard[1]) / 1000) * speed;
    return past ? Math.min(at, past.to_s) : at;
  }

  apply(frame) {
    this.frames += 1;
    if (frame.at_s) this.heard = [frame.at_s, performance.now()];
    if (frame.hello) this.hello = frame.hello, this.dirty.add("hello");
    if (frame.jobs) this.jobs = frame.jobs, this.dirty.add("jobs");
    if (frame.nodes) this.takeNodes(frame.nodes);
    if (frame.gone || (frame.hello && this.picture && !frame.picture)) this.gone = true, this.dirty.add("jobs");  // it went while nobody told us
    if (frame.picture) this.takePicture(frame.picture);
    if (frame.events) this.takeEvents(frame.events);
    if (frame.tasks) this.takeRows(frame.tasks);
    if (frame.samples) this.takeSamples(frame.samples);
  }

  takeNodes({ changed, names }) {
    for (const node of changed) this.nodes.set(node.name, node);
    const known = new Set(names);
    for (const name of this.nodes.keys()) if (!known.has(name)) this.nodes.delete(name);
    this.dirty.add("nodes");
  }

  takePicture(picture) {
    const same = picture && this.picture && picture.job === this.picture.job && picture.tasks.length === this.picture.tasks.length;
    if (!same) {
      const events = this.events;
      this.clear();
      this.picture = picture;
      if (picture) for (const event of events) this.note(event);
    }
    this.picture = picture;
    this.gone = false;
    this.samples = [];
    this.dirty.add("picture").add("samples").add("tasks").add("jobs");
  }

  takeRows(rows) {
    for (const index in rows) {
      const row = rows[index], before = this.rows[index];
      this.rows[index] = row;
      this.changed.add(+index);
      this.tick(+index, row, before);
    }
    this.dirty.add("tasks");
  }

  // Keep the quality of the last epochs: what was not exact turns exact when its correction has been made.
  tick(index, row, before) {
    const live = row[2], clean = row[3];
    if (live === null) return;
    let ticks = this.ticks[index];
    if (!ticks || live < ticks.last) {  // seen for the first time: what is clean is exact, the rest is told as it comes
      ticks = this.ticks[index] = { last: live - 1, at: new Uint8Array(TICKS).fill(NONE) };
      for (let epoch = Math.max(1, live - TICKS + 1); epoch <= Math.min(clean ?? 0, live - 1); epoch++) ticks.at[epoch % TICKS] = 0;
      if (clean !== null) ticks.last = Math.max(0, Math.min(clean, live - 1));
    }
    const quality = Math.max(0, QUALITIES.indexOf(row[1] ?? "exact"));
    if (live > ticks.last) {
      for (let epoch = Math.max(ticks.last + 1, live - TICKS + 1); epoch <= live; epoch++) ticks.at[epoch % TICKS] = quality;
      ticks.last = live;
      if (before) this.moved.add(index);
    }
    if (clean === null) return;
    for (let epoch = Math.max(0, live - TICKS + 1); epoch <= Math.min(clean, live); epoch++) {
      if (ticks.at[epoch % TICKS] !== NONE) ticks.at[epoch % TICKS] = 0;
    }
  }

  takeEvents(events) {
    for (const event of events) {
      if (event.number <= this.newest) continue;
      this.newest = event.number;
      this.events.push(event);
      this.note(event);
    }
    if (this.events.length > EVENTS) this.events.splice(0, this.events.length - EVENTS);
    this.dirty.add("events");
  }

  // Faults and outages of the job that is shown.
  note(event) {
    if (event.kind === "fault") keep(this.faults, { at: event.at_s, text: event.text.replace(/^fault /, "") }, FAULTS);
    if (event.kind === "node" && event.node) {
      const lost = / is lost/.test(event.text);
      this.outage(`node ${event.node}`, lost ? "lost" : "running", event);
    }
    const state = event.data?.state;
    if (event.kind !== "replica" || !state || (this.picture && event.job !== this.picture.job)) return;
    this.outage(event.replica, state, event);
  }

  outage(who, state, event) {
    const open = this.open.get(who);
    if (DEAD.has(state) && state !== "stopped") {
      if (open) return;
      const outage = { who, name: who.includes(":") ? taskOf(who) : who, from: event.at_s, to: null, why: event.text, node: event.node };
      this.open.set(who, outage);
      keep(this.outages, outage, OUTAGES);
    } else if (open && (state === "running" || state === "finished" || state === "idle" || state === "stopped")) {
      open.to = event.at_s;
      if (!who.startsWith("node ")) this.recovered += 1;
      this.open.delete(who);
    }
  }

  takeSamples(samples) {
    for (const sample of samples) this.samples.push(sample);
    if (this.samples.length > SAMPLES) this.samples.splice(0, this.samples.length - SAMPLES);
    this.dirty.add("samples");
  }

  quality() {
    return this.samples.length ? this.samples[this.samples.length - 1][5] : null;
  }

  taskIndex(name) {
    return this.picture ? this.picture.tasks.findIndex((task) => task.name === name) : -1;
  }
}

function keep(list, item, most) {
  list.push(item);
  if (list.length > most) list.splice(0, list.length - most);
}
