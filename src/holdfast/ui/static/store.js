// All data of the page. Every list is bounded, so that a page can stay open for days.

import { DEAD_STATES, QUALITIES, taskOf } from "./format.js";

export const TICKS = 26;
const MAX_SAMPLES = 900, MAX_EVENTS = 1000, MAX_OUTAGES = 300, MAX_FAULTS = 200;
export const NO_QUALITY = 255;

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
    this.clockSync = [0, performance.now()];
  }

  // Remove the data of the job that is shown.
  clear() {
    this.picture = null;
    this.ended = false;
    this.rows = [];
    this.ticks = [];
    this.advanced = new Set();
    this.samples = [];
    this.outages = [];
    this.openOutages = new Map();
    this.recovered = 0;
    this.faults = [];
  }

  // The current time of the server's clock.
  now() {
    const past = this.hello?.past;
    const speed = past ? (past.playing ? past.speed : 0) : 1;
    const at = this.clockSync[0] + ((performance.now() - this.clockSync[1]) / 1000) * speed;
    return past ? Math.min(at, past.to_s) : at;
  }

  apply(frame) {
    this.frames += 1;
    if (frame.at_s) this.clockSync = [frame.at_s, performance.now()];
    if (frame.hello) this.hello = frame.hello, this.dirty.add("hello");
    if (frame.jobs) this.jobs = frame.jobs, this.dirty.add("jobs");
    if (frame.nodes) this.takeNodes(frame.nodes);
    if (frame.gone || (frame.hello && this.picture && !frame.picture)) this.ended = true, this.dirty.add("jobs");  // the job ended while the page was disconnected
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
    const sameJob = picture && this.picture && picture.job === this.picture.job && picture.tasks.length === this.picture.tasks.length;
    if (!sameJob) {
      const events = this.events;
      this.clear();
      this.picture = picture;
      if (picture) for (const event of events) this.noteEvent(event);
    }
    this.picture = picture;
    this.ended = false;
    this.samples = [];
    this.dirty.add("picture").add("samples").add("tasks").add("jobs");
  }

  takeRows(rows) {
    for (const index in rows) {
      const row = rows[index], previous = this.rows[index];
      this.rows[index] = row;
      this.updateTicks(+index, row, previous);
    }
    this.dirty.add("tasks");
  }

  // Record the quality of the last epochs. An epoch becomes exact when it has been corrected.
  updateTicks(index, row, previous) {
    const live = row[2], clean = row[3];
    if (live === null) return;
    let ticks = this.ticks[index];
    if (!ticks || live < ticks.last) {  // first row of the task: epochs up to the clean one are exact, the quality of the others is unknown
      ticks = this.ticks[index] = { last: live - 1, at: new Uint8Array(TICKS).fill(NO_QUALITY) };
      for (let epoch = Math.max(1, live - TICKS + 1); epoch <= Math.min(clean ?? 0, live - 1); epoch++) ticks.at[epoch % TICKS] = 0;
      if (clean !== null) ticks.last = Math.max(0, Math.min(clean, live - 1));
    }
    const quality = Math.max(0, QUALITIES.indexOf(row[1] ?? "exact"));
    if (live > ticks.last) {
      for (let epoch = Math.max(ticks.last + 1, live - TICKS + 1); epoch <= live; epoch++) ticks.at[epoch % TICKS] = quality;
      ticks.last = live;
      if (previous) this.advanced.add(index);
    }
    if (clean === null) return;
    for (let epoch = Math.max(0, live - TICKS + 1); epoch <= Math.min(clean, live); epoch++) {
      if (ticks.at[epoch % TICKS] !== NO_QUALITY) ticks.at[epoch % TICKS] = 0;
    }
  }

  takeEvents(events) {
    for (const event of events) {
      if (event.number <= this.newest) continue;
      this.newest = event.number;
      this.events.push(event);
      this.noteEvent(event);
    }
    if (this.events.length > MAX_EVENTS) this.events.splice(0, this.events.length - MAX_EVENTS);
    this.dirty.add("events");
  }

  // Record the faults and outages of the job that is shown.
  noteEvent(event) {
    if (event.kind === "fault") pushBounded(this.faults, { at: event.at_s, text: event.text.replace(/^fault /, "") }, MAX_FAULTS);
    if (event.kind === "node" && event.node) {
      const lost = / is lost/.test(event.text);
      this.updateOutage(`node ${event.node}`, lost ? "lost" : "running", event);
    }
    const state = event.data?.state;
    if (event.kind !== "replica" || !state || (this.picture && event.job !== this.picture.job)) return;
    this.updateOutage(event.replica, state, event);
  }

  updateOutage(who, state, event) {
    const open = this.openOutages.get(who);
    if (DEAD_STATES.has(state) && state !== "stopped") {
      if (open) return;
      const outage = { who, name: who.includes(":") ? taskOf(who) : who, from: event.at_s, to: null, why: event.text, node: event.node };
      this.openOutages.set(who, outage);
      pushBounded(this.outages, outage, MAX_OUTAGES);
    } else if (open && (state === "running" || state === "finished" || state === "idle" || state === "stopped")) {
      open.to = event.at_s;
      if (!who.startsWith("node ")) this.recovered += 1;
      this.openOutages.delete(who);
    }
  }

  takeSamples(samples) {
    for (const sample of samples) this.samples.push(sample);
    if (this.samples.length > MAX_SAMPLES) this.samples.splice(0, this.samples.length - MAX_SAMPLES);
    this.dirty.add("samples");
  }

  // The quality of the output in the newest sample.
  quality() {
    return this.samples.length ? this.samples[this.samples.length - 1][5] : null;
  }

  taskIndex(name) {
    return this.picture ? this.picture.tasks.findIndex((task) => task.name === name) : -1;
  }
}

function pushBounded(list, item, limit) {
  list.push(item);
  if (list.length > limit) list.splice(0, list.length - limit);
}
