// Playing back a run that is over: where in it, and how fast.

import { span } from "./words.js";

export class Player {
  constructor(store, { restart }) {
    Object.assign(this, { store, restart });
    const get = (id) => document.getElementById(id);
    this.home = get("player");
    this.seek = get("seek");
    this.speed = get("speed");
    this.play = get("play");
    this.at = null;
    this.playing = true;
    this.play.addEventListener("click", () => this.toggle());
    this.seek.addEventListener("input", () => { this.held = true; this.show(); });
    this.seek.addEventListener("change", () => { this.held = false; this.go(Number(this.seek.value)); });
    this.speed.addEventListener("change", () => this.go(this.store.now() - this.store.hello.past.from_s));
  }

  query() {
    if (this.at === null) return "";
    return `&at_s=${this.at.toFixed(2)}&speed=${this.playing ? this.speed.value : 0}`;
  }

  // The moment that is shown, for questions about it.
  moment() {
    const past = this.store.hello?.past;
    return past ? `&at_s=${(this.store.now() - past.from_s).toFixed(2)}` : "";
  }

  go(at) {
    this.at = at;
    this.restart();
  }

  toggle() {
    const { from_s, opens_s } = this.store.hello.past;
    this.playing = this.over() || !this.playing;
    this.go(this.over() ? opens_s : this.store.now() - from_s);
  }

  // Whether the end is shown: from there it is played once more.
  over() {
    return this.store.now() >= this.store.hello.past.to_s - 0.5;
  }

  show() {
    const past = this.store.hello?.past;
    this.home.hidden = !past;
    if (!past) return;
    const long = past.to_s - past.from_s;
    this.seek.max = long.toFixed(1);
    if (!this.held) this.seek.value = (this.store.now() - past.from_s).toFixed(1);
    document.getElementById("seek-said").textContent = `${span(Number(this.seek.value))} of ${span(long)}`;
    const goes = this.playing && !this.over(), said = goes ? "❚❚" : "▶";
    if (this.play.textContent !== said) this.play.textContent = said, this.play.setAttribute("aria-label", goes ? "Pause" : "Play");
  }
}
