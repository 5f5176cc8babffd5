// The graph on a canvas. Cards and edges are drawn once, on a background canvas; what changes is drawn over it.

import { addBox, addShape, cardText, drawChips, drawHatch, drawShape, drawTag, shortenText, strokePath } from "./drawing.js";
import { QUALITIES } from "./format.js";
import { CARD, computeLayout, pointOnPath } from "./graph_layout.js";
import { NO_QUALITY, TICKS } from "./store.js";
import { FONT, colours, onThemeChange, sharpContext } from "./theme.js";

const MAX_SPARKS = 300, SPARK_MS = 900;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export class Graph {
  constructor(canvas, store, { selectTask, openTask }) {
    Object.assign(this, { canvas, store, selectTask, openTask });
    this.background = document.createElement("canvas");
    this.view = { x: 0, y: 0, scale: 1 };
    this.sparks = [];
    this.lastSpark = new Map();
    this.selected = -1;
    this.overlay = null;
    this.layout = null;
    this.backgroundStale = true;
    this.fitted = true;
    this.addListeners();
    onThemeChange(() => { this.backgroundStale = true; this.wake(); });
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
  }

  wake() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame((at) => { this.waiting = 0; this.draw(at); });
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (width === this.width && this.picture === this.store.picture) return;
    const previousWidth = this.width;
    this.width = width;
    this.arrange(previousWidth);
  }

  // Lay the graph out for the current width. If the user has moved or zoomed the view, keep it as far as possible.
  arrange(previousWidth = this.width) {
    const picture = this.store.picture, { view } = this;
    const anchor = this.fitted || picture?.job !== this.picture?.job ? null : this.findAnchor(previousWidth);
    this.picture = picture;
    this.sparks.length = 0;
    this.layout = picture && this.width ? computeLayout(picture, this.width) : null;
    if (this.layout) {
      this.outgoing = picture.tasks.map(() => []);
      this.layout.edges.forEach((edge) => this.outgoing[edge.from].push(edge));
      this.fit();
      if (anchor && anchor.index < this.layout.points.length) this.restoreAnchor(anchor, view.scale);
    }
    this.backgroundStale = true;
    this.wake();
  }

  // Return the selected task, or the one nearest to the centre, and its position as fractions of the canvas.
  findAnchor(width) {
    const { layout, view, height } = this;
    if (!layout?.points.length) return null;
    const fractions = layout.points.map(([x, y]) => [(x * view.scale + view.x) / width, (y * view.scale + view.y) / height]);
    const distance = ([x, y]) => Math.hypot(x - 0.5, y - 0.5);
    const index = this.selected >= 0 ? this.selected : fractions.reduce((best, fraction, k) => (distance(fraction) < distance(fractions[best]) ? k : best), 0);
    return { index, fraction: fractions[index] };
  }

  restoreAnchor({ index, fraction: [x, y] }, scale) {
    const [px, py] = this.layout.points[index];
    this.view = { scale, x: x * this.width - px * scale, y: y * this.height - py * scale };
    this.fitted = false;
    if (!this.visible(px, py)) this.select(this.selected);
  }

  fit() {
    const { layout, width } = this;
    if (!layout) return;
    const pad = 14, maxHeight = layout.down ? 4000 : 520;
    const scale = Math.min((width - 2 * pad) / layout.width, layout.mode === "blocks" ? 2.2 : 1.12, (maxHeight - 2 * pad) / layout.height);
    const height = Math.max(layout.down ? 170 : document.getElementById("stage").classList.contains("open") ? 385 : 330, Math.min(maxHeight, layout.height * scale + 2 * pad));
    this.canvas.style.height = `${Math.round(height)}px`;
    this.height = Math.round(height);
    this.view = { scale, x: (width - layout.width * scale) / 2, y: (height - layout.height * scale) / 2 };
    this.fitScale = scale;
    this.fitted = true;
    this.backgroundStale = true;
    this.wake();
  }

  // Whether the graph is larger than the canvas. If so, a finger moves the graph; otherwise it scrolls the page.
  get zoomed() { return this.view.scale > 1.001 * this.fitScale; }

  zoom(by, x = this.width / 2, y = this.height / 2) {
    const { view } = this;
    const scale = Math.min(3, Math.max(Math.min(0.15, this.fitScale), view.scale * by));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    this.fitted = false;
    this.backgroundStale = true;
    this.wake();
  }

  // Show changed rows. A spark runs along each stream of a task that has finished an epoch.
  update() {
    if (this.store.picture !== this.picture) this.arrange();
    if (!this.layout) return;
    const now = performance.now();
    if (!reducedMotion.matches && this.layout.mode === "cards") {
      for (const index of this.store.advanced) {
        if (now - (this.lastSpark.get(index) ?? 0) < 220) continue;
        this.lastSpark.set(index, now);
        for (const edge of this.outgoing[index]) {
          if (this.sparks.length < MAX_SPARKS) this.sparks.push({ edge, from: now, quality: this.store.rows[index]?.[1] ?? "exact" });
        }
      }
    }
    this.store.advanced.clear();
    this.wake();
  }

  draw(at) {
    const { layout, width, height, view } = this;
    if (!layout || !width || this.picture !== this.store.picture) return;
    const context = sharpContext(this.canvas, width, height);
    if (this.backgroundStale) this.drawBackground();
    context.clearRect(0, 0, width, height);
    context.save();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.background, 0, 0);
    context.restore();
    context.translate(view.x, view.y);
    context.scale(view.scale, view.scale);
    if (layout.mode === "cards") this.drawCards(context, at);
    else this.drawCells(context);
    if (this.sparks.length) this.wake();
  }

  visible(x, y) {
    const { view, layout } = this;
    const left = x * view.scale + view.x, top = y * view.scale + view.y;
    const w = (layout.w / 2 + 4) * view.scale, h = (layout.h / 2 + 4) * view.scale;
    return left + w > 0 && left - w < this.width && top + h > 0 && top - h < this.height;
  }

  // Draw edges and empty cards. This is necessary only when the view or the theme changes.
  drawBackground() {
    const { layout, view } = this;
    const context = sharpContext(this.background, this.width, this.height);
    context.clearRect(0, 0, this.width, this.height);
    context.translate(view.x, view.y);
    context.scale(view.scale, view.scale);
    if (layout.mode === "cards") {
      context.strokeStyle = colours.edge;
      context.lineWidth = 2.5;
      for (const edge of layout.edges) strokePath(context, edge.path);
      for (const [x, y] of layout.points) {
        context.fillStyle = colours.card;
        context.strokeStyle = colours.edge;
        context.lineWidth = 1.2;
        context.shadowColor = "rgba(10,20,30,.10)";
        context.shadowBlur = 10;
        context.shadowOffsetY = 2;
        addBox(context, x, y, CARD.w, CARD.h, 11);
        context.fill();
        context.shadowColor = "transparent";
        context.stroke();
      }
    } else {
      context.fillStyle = colours.soft;
      context.font = `600 ${Math.max(11, 11 / view.scale)}px ${FONT}`;
      for (const label of layout.labels) context.fillText(label.text, label.x, label.y);
    }
    this.canvas.classList.toggle("zoomed", this.zoomed);
    this.backgroundStale = false;
  }

  drawCards(context, at) {
    const { layout, store } = this;
    for (const edge of layout.edges) {
      const quality = store.rows[edge.from]?.[1];
      if (!quality || quality === "absent") continue;
      context.globalAlpha = quality === "exact" ? 0.32 : 0.75;
      context.strokeStyle = colours[quality];
      context.lineWidth = 2.5;
      strokePath(context, edge.path);
    }
    context.globalAlpha = 1;
    this.sparks = this.sparks.filter((spark) => at - spark.from < SPARK_MS);
    for (const spark of this.sparks) {
      const fraction = Math.max(0, Math.min(1, (at - spark.from) / SPARK_MS));
      const [x, y] = pointOnPath(spark.edge.path, fraction);
      drawShape(context, spark.quality, x, y, 5.5);
    }
    layout.points.forEach(([x, y], index) => { if (this.visible(x, y)) this.drawCard(context, index, x, y); });
  }

  drawCard(context, index, x, y) {
    const { store } = this;
    const task = store.picture.tasks[index], row = store.rows[index];
    const left = x - CARD.w / 2, top = y - CARD.h / 2;
    const [state, quality] = row ?? ["none", null];
    const down = state === "down";
    context.save();
    addBox(context, x, y, CARD.w, CARD.h, 11);
    context.clip();
    if (down) drawHatch(context, left, top);
    context.fillStyle = colours[quality ?? "none"];
    context.fillRect(left, top, 5, CARD.h);
    context.restore();
    context.fillStyle = colours.ink;
    context.font = `650 13px ${FONT}`;
    context.textBaseline = "alphabetic";
    context.fillText(shortenText(context, task.name.replace(/\/0$/, ""), CARD.w - 42), left + 15, top + 21);
    drawShape(context, quality, left + CARD.w - 16, top + 16.5, 6);
    context.font = `11.5px ${FONT}`;
    context.fillStyle = down ? colours["absent-text"] : colours.soft;
    context.fillText(shortenText(context, cardText(task, row), CARD.w - 24), left + 15, top + 38);
    this.drawTicks(context, index, left + 15, top + 46);
    if (row) drawChips(context, row[7], left + 15, top + 63);
    this.drawOutline(context, index, x, y, 11);
  }

  drawTicks(context, index, left, top) {
    const ticks = this.store.ticks[index];
    const width = (CARD.w - 29) / TICKS;
    for (let k = 0; k < TICKS; k++) {
      const epoch = ticks ? ticks.last - TICKS + 1 + k : -1;
      const quality = epoch >= 0 ? ticks.at[epoch % TICKS] : NO_QUALITY;
      context.fillStyle = quality === NO_QUALITY ? colours.sunk : colours[QUALITIES[quality]];
      const low = quality === 0 || quality === NO_QUALITY ? 0 : quality === 3 ? 6 : 3;  // inexact epochs have lower bars, so that they can be recognized without colour
      context.fillRect(left + k * width, top + low, width - 1.4, 9 - low);
    }
  }

  drawCells(context) {
    const { layout, store, view } = this;
    const showShapes = view.scale * layout.w >= 9;
    const half = layout.w / 2;
    const groups = new Map();
    for (let index = 0; index < layout.points.length; index++) {
      const quality = store.rows[index]?.[1] ?? "none";
      if (!groups.has(quality)) groups.set(quality, []);
      groups.get(quality).push(index);
    }
    for (const [quality, members] of groups) {
      context.fillStyle = colours[quality];
      for (const index of members) {  // one by one, because filling one path of a thousand boxes takes ten times as long
        const [x, y] = layout.points[index];
        context.fillRect(x - half, y - half, layout.w, layout.h);
      }
      if (!showShapes || quality === "exact" || quality === "none") continue;
      context.fillStyle = colours.card;
      context.beginPath();
      for (const index of members) addShape(context, quality, ...layout.points[index], 3.2);
      context.fill();
    }
    this.drawProgress(context);
    if (this.selected >= 0) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 1.2;
      for (const edge of layout.edges) if (edge.from === this.selected || edge.to === this.selected) strokePath(context, edge.path);
      this.drawOutline(context, this.selected, ...layout.points[this.selected], 3);
    }
    if (this.overlay) layout.points.forEach(([x, y], index) => { if (index !== this.selected) this.drawOutline(context, index, x, y, 3); });
  }

  // Draw a light bar that moves up in each cell with every epoch, so that a task without progress can be seen.
  drawProgress(context) {
    const { layout, store } = this;
    context.fillStyle = "rgba(255,255,255,.42)";
    const half = layout.w / 2;
    for (let index = 0; index < layout.points.length; index++) {
      const live = store.rows[index]?.[2];
      if (live == null) continue;
      const [x, y] = layout.points[index];
      context.fillRect(x - half, y + half - 2.4 - (live % 5) * 2.4, layout.w, 2.4);
    }
  }

  drawOutline(context, index, x, y, radius) {
    const { layout, overlay } = this;
    const name = this.store.picture.tasks[index].name;
    let colour = null, label = "", dashed = false;
    if (overlay?.down.has(name)) [colour, label] = [colours["absent-text"], "stops"];
    else if (overlay?.late.has(name)) [colour, label, dashed] = [colours["tentative-text"], "late", true];
    else if (overlay?.downstream.has(name)) [colour, label, dashed] = [colours[overlay.becomes === "predicted" ? "predicted-text" : "tentative-text"], overlay.becomes, true];
    else if (overlay?.continues.has(name)) [colour, label] = [colours["exact-text"], "continues"];
    if (colour) {
      context.strokeStyle = colour;
      context.lineWidth = 3;
      context.setLineDash(dashed ? [7, 4] : []);
      addBox(context, x, y, layout.w + 5, layout.h + 5, radius + 2);
      context.stroke();
      context.setLineDash([]);
      if (layout.mode === "cards") drawTag(context, label, x + layout.w / 2 - 6, y - layout.h / 2 - 2, colour);
    }
    if (index !== this.selected) return;
    context.strokeStyle = colours.accent;
    context.lineWidth = layout.mode === "cards" ? 2.6 : 2;
    addBox(context, x, y, layout.w + (colour ? 12 : 3), layout.h + (colour ? 12 : 3), radius + 3);
    context.stroke();
  }

  // Return the index of the task at a point of the canvas, or -1.
  at(x, y) {
    const { layout, view } = this;
    if (!layout) return -1;
    const px = (x - view.x) / view.scale, py = (y - view.y) / view.scale;
    return layout.points.findIndex(([cx, cy]) => Math.abs(px - cx) <= layout.w / 2 + 1 && Math.abs(py - cy) <= layout.h / 2 + 1);
  }

  select(index) {
    this.selected = index;
    if (index >= 0 && this.layout && !this.visible(...this.layout.points[index])) {
      const [x, y] = this.layout.points[index];
      this.view.x = this.width / 2 - x * this.view.scale;
      this.view.y = this.height / 2 - y * this.view.scale;
      this.backgroundStale = true;
    }
    this.wake();
  }

  // Return the nearest task in the direction of an arrow key. Tasks connected to the selected one are preferred.
  neighbour(key) {
    const { layout } = this;
    if (!layout?.points.length) return -1;
    if (this.selected < 0) return 0;
    const [x, y] = layout.points[this.selected];
    const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
    let best = -1, least = Infinity;
    layout.points.forEach(([px, py], index) => {
      const ahead = (px - x) * dx + (py - y) * dy, aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (index === this.selected || ahead <= 1) return;
      const connected = layout.edges.some((e) => (e.from === this.selected && e.to === index) || (e.to === this.selected && e.from === index));
      const cost = ahead + 2 * aside - (connected ? 200 : 0);
      if (cost < least) [best, least] = [index, cost];
    });
    return best < 0 ? this.selected : best;
  }

  addListeners() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => { drag = { x: event.offsetX, y: event.offsetY, view: { ...this.view }, vertical: event.pointerType !== "touch" || this.zoomed, moved: false }; });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) {
        canvas.classList.toggle("over", this.at(event.offsetX, event.offsetY) >= 0);
        return;
      }
      const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 5) return;
      if (!drag.moved) canvas.setPointerCapture(event.pointerId), canvas.classList.add("drag");
      drag.moved = true;
      this.view.x = drag.view.x + dx;
      if (drag.vertical) this.view.y = drag.view.y + dy;
      this.fitted = false;
      this.backgroundStale = true;
      this.wake();
    });
    const end = (event) => {
      if (drag && !drag.moved && event.type === "pointerup") this.openTask(this.at(event.offsetX, event.offsetY));
      drag = null;
      canvas.classList.remove("drag");
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;  // without a modifier key, the wheel scrolls the page
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (!event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.selectTask(this.neighbour(event.key));
    });
  }
}
