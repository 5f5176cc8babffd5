// The controls that play a finished run back: the moment that is shown, and the speed.

import { formatSpan } from "./format.js";

export class Player {
  constructor(store, { restart }) {
    Object.assign(this, { store, restart });
    const get = (id) => document.getElementById(id);
    this.root = get("player");
    this.seek = get("seek");
    this.speed = get("speed");
    this.playButton = get("play");
    this.at = null;
    this.playing = true;
    this.playButton.addEventListener("click", () => this.toggle());
    this.seek.addEventListener("input", () => { this.dragging = true; this.render(); });
    this.seek.addEventListener("change", () => { this.dragging = false; this.playFrom(Number(this.seek.value)); });
    this.speed.addEventListener("change", () => this.playFrom(this.store.now() - this.store.hello.past.from_s));
  }

  // The parameters of the feed.
  query() {
    if (this.at === null) return "";
    return `&at_s=${this.at.toFixed(2)}&speed=${this.playing ? this.speed.value : 0}`;
  }

  // The parameter that asks a question about the moment that is shown.
  momentQuery() {
    const past = this.store.hello?.past;
    return past ? `&at_s=${(this.store.now() - past.from_s).toFixed(2)}` : "";
  }

  playFrom(at) {
    this.at = at;
    this.restart();
  }

  toggle() {
    const { from_s, opens_s } = this.store.hello.past;
    this.playing = this.atEnd() || !this.playing;
    this.playFrom(this.atEnd() ? opens_s : this.store.now() - from_s);
  }

  // Whether the end of the run is shown. The play button then starts the run again.
  atEnd() {
    return this.store.now() >= this.store.hello.past.to_s - 0.5;
  }

  render() {
    const past = this.store.hello?.past;
    this.root.hidden = !past;
    if (!past) return;
    const length = past.to_s - past.from_s;
    this.seek.max = length.toFixed(1);
    if (!this.dragging) this.seek.value = (this.store.now() - past.from_s).toFixed(1);
    document.getElementById("seek-text").textContent = `${formatSpan(Number(this.seek.value))} of ${formatSpan(length)}`;
    const running = this.playing && !this.atEnd(), symbol = running ? "❚❚" : "▶";
    if (this.playButton.textContent !== symbol) this.playButton.textContent = symbol, this.playButton.setAttribute("aria-label", running ? "Pause" : "Play");
  }
}
