// The graph on a canvas: what stays (cards, edges) is drawn once into a picture of its own, what moves is drawn over it.

import { box, chips, fitting, hatch, outlineOf, said, shape, tag, trace } from "./marks.js";
import { CARD, along, placesOf } from "./places.js";
import { TICKS } from "./store.js";
import { FONT, colours, onTheme, sharp } from "./theme.js";
import { QUALITIES } from "./words.js";

const MOST_SPARKS = 300, SPARK_MS = 900;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Graph {
  constructor(canvas, store, { choose, show }) {
    Object.assign(this, { canvas, store, choose, show });
    this.under = document.createElement("canvas");
    this.view = { x: 0, y: 0, scale: 1 };
    this.sparks = [];
    this.sparked = new Map();
    this.chosen = -1;
    this.overlay = null;
    this.places = null;
    this.whole = true;
    this.fitted = true;
    this.listen();
    onTheme(() => { this.whole = true; this.wake(); });
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
  }

  wake() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame((at) => { this.waiting = 0; this.draw(at); });
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (width === this.width && this.picture === this.store.picture) return;
    const before = this.width;
    this.width = width;
    this.arrange(before);
  }

  // Give every task its place in the width there is. A view that the reader has chosen stays what it was, as far as it can.
  arrange(before = this.width) {
    const picture = this.store.picture, { view } = this;
    const held = this.fitted || picture?.job !== this.picture?.job ? null : this.held(before);
    this.picture = picture;
    this.sparks.length = 0;
    this.places = picture && this.width ? placesOf(picture, this.width) : null;
    if (this.places) {
      this.edgesOf = picture.tasks.map(() => []);
      this.places.edges.forEach((edge) => this.edgesOf[edge.from].push(edge));
      this.fit();
      if (held && held.index < this.places.points.length) this.hold(held, view.scale);
    }
    this.whole = true;
    this.wake();
  }

  // The task that the reader looks at, chosen or in the middle, and where in the canvas it stands.
  held(width) {
    const { places, view, height } = this;
    if (!places?.points.length) return null;
    const shares = places.points.map(([x, y]) => [(x * view.scale + view.x) / width, (y * view.scale + view.y) / height]);
    const off = ([x, y]) => Math.hypot(x - 0.5, y - 0.5);
    const index = this.chosen >= 0 ? this.chosen : shares.reduce((best, share, k) => (off(share) < off(shares[best]) ? k : best), 0);
    return { index, share: shares[index] };
  }

  hold({ index, share: [x, y] }, scale) {
    const [px, py] = this.places.points[index];
    this.view = { scale, x: x * this.width - px * scale, y: y * this.height - py * scale };
    this.fitted = false;
    if (!this.visible(px, py)) this.select(this.chosen);
  }

  fit() {
    const { places, width } = this;
    if (!places) return;
    const pad = 14, most = places.down ? 4000 : 520;
    const scale = Math.min((width - 2 * pad) / places.width, places.mode === "blocks" ? 2.2 : 1.12, (most - 2 * pad) / places.height);
    const height = Math.max(places.down ? 170 : document.getElementById("stage").classList.contains("open") ? 385 : 330, Math.min(most, places.height * scale + 2 * pad));
    this.canvas.style.height = `${Math.round(height)}px`;
    this.height = Math.round(height);
    this.view = { scale, x: (width - places.width * scale) / 2, y: (height - places.height * scale) / 2 };
    this.least = scale;
    this.fitted = true;
    this.whole = true;
    this.wake();
  }

  // Larger than it fits: then a finger moves the graph, and otherwise it scrolls the page.
  get zoomed() { return this.view.scale > 1.001 * this.least; }

  zoom(by, x = this.width / 2, y = this.height / 2) {
    const { view } = this;
    const scale = Math.min(3, Math.max(Math.min(0.15, this.least), view.scale * by));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    this.fitted = false;
    this.whole = true;
    this.wake();
  }

  // Take note of rows that changed: sparks run along the streams of tasks whose epoch moved on.
  update() {
    if (this.store.picture !== this.picture) this.arrange();
    if (!this.places) return;
    const now = performance.now();
    if (!still.matches && this.places.mode === "cards") {
      for (const index of this.store.moved) {
        if (now - (this.sparked.get(index) ?? 0) < 220) continue;
        this.sparked.set(index, now);
        for (const edge of this.edgesOf[index]) {
          if (this.sparks.length < MOST_SPARKS) this.sparks.push({ edge, from: now, quality: this.store.rows[index]?.[1] ?? "exact" });
        }
      }
    }
    this.store.moved.clear();
    this.wake();
  }

  draw(at) {
    const { places, width, height, view } = this;
    if (!places || !width || this.picture !== this.store.picture) return;
    const context = sharp(this.canvas, width, height);
    if (this.whole) this.drawUnder();
    context.clearRect(0, 0, width, height);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.under, 0, 0);
    context.restore();
    context.translate(view.x, view.y);
    context.scale(view.scale, view.scale);
    if (places.mode === "cards") this.drawCards(context, at);
    else this.drawCells(context);
    this.store.changed.clear();
    if (this.sparks.length) this.wake();
  }

  visible(x, y) {
    const { view, places } = this;
    const left = x * view.scale + view.x, top = y * view.scale + view.y;
    const w = (places.w / 2 + 4) * view.scale, h = (places.h / 2 + 4) * view.scale;
    return left + w > 0 && left - w < this.width && top + h > 0 && top - h < this.height;
  }

  // Edges and card grounds: drawn again only when the view or the theme changes.
  drawUnder() {
    const { places, view } = this;
    const context = sharp(this.under, this.width, this.height);
    context.clearRect(0, 0, this.width, this.height);
    context.translate(view.x, view.y);
    context.scale(view.scale, view.scale);
    if (places.mode === "cards") {
      context.strokeStyle = colours.edge;
      context.lineWidth = 2.5;
      for (const edge of places.edges) trace(context, edge.path);
      for (const [x, y] of places.points) {
        context.fillStyle = colours.card;
        context.strokeStyle = colours.edge;
        context.lineWidth = 1.2;
        context.shadowColor = "rgba(10,20,30,.10)";
        context.shadowBlur = 10;
        context.shadowOffsetY = 2;
        box(context, x, y, CARD.w, CARD.h, 11);
        context.fill();
        context.shadowColor = "transparent";
        context.stroke();
      }
    } else {
      context.fillStyle = colours.soft;
      context.font = `600 ${Math.max(11, 11 / view.scale)}px ${FONT}`;
      for (const label of places.labels) context.fillText(label.text, label.x, label.y);
    }
    this.canvas.classList.toggle("zoomed", this.zoomed);
    this.whole = false;
  }

  drawCards(context, at) {
    const { places, store } = this;
    for (const edge of places.edges) {
      const quality = store.rows[edge.from]?.[1];
      if (!quality || quality === "absent") continue;
      context.globalAlpha = quality === "exact" ? 0.32 : 0.75;
      context.strokeStyle = colours[quality];
      context.lineWidth = 2.5;
      trace(context, edge.path);
    }
    context.globalAlpha = 1;
    this.sparks = this.sparks.filter((spark) => at - spark.from < SPARK_MS);
    for (const spark of this.sparks) {
      const share = Math.max(0, Math.min(1, (at - spark.from) / SPARK_MS));
      const [x, y] = along(spark.edge.path, share);
      shape(context, spark.quality, x, y, 5.5);
    }
    places.points.forEach(([x, y], index) => { if (this.visible(x, y)) this.drawCard(context, index, x, y); });
  }

  drawCard(context, index, x, y) {
    const { store } = this;
    const task = store.picture.tasks[index], row = store.rows[index];
    const left = x - CARD.w / 2, top = y - CARD.h / 2;
    const [state, quality] = row ?? ["none", null];
    const down = state === "down";
    context.save();
    box(context, x, y, CARD.w, CARD.h, 11);
    context.clip();
    if (down) hatch(context, left, top);
    context.fillStyle = colours[quality ?? "none"];
    context.fillRect(left, top, 5, CARD.h);
    context.restore();
    context.fillStyle = colours.ink;
    context.font = `650 13px ${FONT}`;
    context.textBaseline = "alphabetic";
    context.fillText(fitting(context, task.name.replace(/\/0$/, ""), CARD.w - 42), left + 15, top + 21);
    shape(context, quality, left + CARD.w - 16, top + 16.5, 6);
    context.font = `11.5px ${FONT}`;
    context.fillStyle = down ? colours["absent-text"] : colours.soft;
    context.fillText(fitting(context, said(task, row), CARD.w - 24), left + 15, top + 38);
    this.drawTicks(context, index, left + 15, top + 46);
    if (row) chips(context, row[7], left + 15, top + 63);
    this.outline(context, index, x, y, 11);
  }

  drawTicks(context, index, left, top) {
    const ticks = this.store.ticks[index];
    const wide = (CARD.w - 29) / TICKS;
    for (let k = 0; k < TICKS; k++) {
      const epoch = ticks ? ticks.last - TICKS + 1 + k : -1;
      const quality = epoch >= 0 ? ticks.at[epoch % TICKS] : 255;
      context.fillStyle = quality === 255 ? colours.sunk : colours[QUALITIES[quality]];
      const low = quality === 0 || quality === 255 ? 0 : quality === 3 ? 6 : 3;  // what is not exact stands lower: seen without colour too
      context.fillRect(left + k * wide, top + low, wide - 1.4, 9 - low);
    }
  }

  drawCells(context) {
    const { places, store, view } = this;
    const marks = view.scale * places.w >= 9;
    const half = places.w / 2;
    const groups = new Map();
    for (let index = 0; index < places.points.length; index++) {
      const quality = store.rows[index]?.[1] ?? "none";
      if (!groups.has(quality)) groups.set(quality, []);
      groups.get(quality).push(index);
    }
    for (const [quality, members] of groups) {
      context.fillStyle = colours[quality];
      for (const index of members) {  // one by one: a path of a thousand boxes takes ten times as long to fill
        const [x, y] = places.points[index];
        context.fillRect(x - half, y - half, places.w, places.h);
      }
      if (!marks || quality === "exact" || quality === "none") continue;
      context.fillStyle = colours.card;
      context.beginPath();
      for (const index of members) outlineOf(context, quality, ...places.points[index], 3.2);
      context.fill();
    }
    this.drawSpeed(context);
    if (this.chosen >= 0) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 1.2;
      for (const edge of places.edges) if (edge.from === this.chosen || edge.to === this.chosen) trace(context, edge.path);
      this.outline(context, this.chosen, ...places.points[this.chosen], 3);
    }
    if (this.overlay) places.points.forEach(([x, y], index) => { if (index !== this.chosen) this.outline(context, index, x, y, 3); });
  }

  // In a block, a light bar walks up each cell as its epochs go by: what stands still can be seen.
  drawSpeed(context) {
    const { places, store } = this;
    context.fillStyle = "rgba(255,255,255,.42)";
    const half = places.w / 2;
    for (let index = 0; index < places.points.length; index++) {
      const live = store.rows[index]?.[2];
      if (live == null) continue;
      const [x, y] = places.points[index];
      context.fillRect(x - half, y + half - 2.4 - (live % 5) * 2.4, places.w, 2.4);
    }
  }

  outline(context, index, x, y, radius) {
    const { places, overlay } = this;
    const name = this.store.picture.tasks[index].name;
    let colour = null, label = "", dashed = false;
    if (overlay?.down.has(name)) [colour, label] = [colours["absent-text"], "stops"];
    else if (overlay?.late.has(name)) [colour, label, dashed] = [colours["tentative-text"], "late", true];
    else if (overlay?.downstream.has(name)) [colour, label, dashed] = [colours[overlay.becomes === "predicted" ? "predicted-text" : "tentative-text"], overlay.becomes, true];
    else if (overlay?.goes.has(name)) [colour, label] = [colours["exact-text"], "goes on"];
    if (colour) {
      context.strokeStyle = colour;
      context.lineWidth = 3;
      context.setLineDash(dashed ? [7, 4] : []);
      box(context, x, y, places.w + 5, places.h + 5, radius + 2);
      context.stroke();
      context.setLineDash([]);
      if (places.mode === "cards") tag(context, label, x + places.w / 2 - 6, y - places.h / 2 - 2, colour);
    }
    if (index !== this.chosen) return;
    context.strokeStyle = colours.accent;
    context.lineWidth = places.mode === "cards" ? 2.6 : 2;
    box(context, x, y, places.w + (colour ? 12 : 3), places.h + (colour ? 12 : 3), radius + 3);
    context.stroke();
  }

  // The task at a point of the canvas, or -1.
  at(x, y) {
    const { places, view } = this;
    if (!places) return -1;
    const px = (x - view.x) / view.scale, py = (y - view.y) / view.scale;
    return places.points.findIndex(([cx, cy]) => Math.abs(px - cx) <= places.w / 2 + 1 && Math.abs(py - cy) <= places.h / 2 + 1);
  }

  select(index) {
    this.chosen = index;
    if (index >= 0 && this.places && !this.visible(...this.places.points[index])) {
      const [x, y] = this.places.points[index];
      this.view.x = this.width / 2 - x * this.view.scale;
      this.view.y = this.height / 2 - y * this.view.scale;
      this.whole = true;
    }
    this.wake();
  }

  // The task that lies in a direction: along the streams, or beside.
  neighbour(key) {
    const { places } = this;
    if (!places?.points.length) return -1;
    if (this.chosen < 0) return 0;
    const [x, y] = places.points[this.chosen];
    const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
    let best = -1, least = Infinity;
    places.points.forEach(([px, py], index) => {
      const ahead = (px - x) * dx + (py - y) * dy, aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (index === this.chosen || ahead <= 1) return;
      const linked = places.edges.some((e) => (e.from === this.chosen && e.to === index) || (e.to === this.chosen && e.from === index));
      const cost = ahead + 2 * aside - (linked ? 200 : 0);
      if (cost < least) [best, least] = [index, cost];
    });
    return best < 0 ? this.chosen : best;
  }

  listen() {
    const { canvas } = this;
    let from = null;
    canvas.addEventListener("pointerdown", (event) => { from = { x: event.offsetX, y: event.offsetY, view: { ...this.view }, both: event.pointerType !== "touch" || this.zoomed, moved: false }; });
    canvas.addEventListener("pointermove", (event) => {
      if (!from) {
        canvas.classList.toggle("over", this.at(event.offsetX, event.offsetY) >= 0);
        return;
      }
      const dx = event.offsetX - from.x, dy = event.offsetY - from.y;
      if (!from.moved && Math.hypot(dx, dy) < 5) return;
      if (!from.moved) canvas.setPointerCapture(event.pointerId), canvas.classList.add("drag");
      from.moved = true;
      this.view.x = from.view.x + dx;
      if (from.both) this.view.y = from.view.y + dy;
      this.fitted = false;
      this.whole = true;
      this.wake();
    });
    const end = (event) => {
      if (from && !from.moved && event.type === "pointerup") this.show(this.at(event.offsetX, event.offsetY));
      from = null;
      canvas.classList.remove("drag");
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;  // the wheel alone scrolls the page
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (!event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.choose(this.neighbour(event.key));
    });
  }
}
