// The charts: figures over time, and the timeline of faults. All share one time axis and are redrawn with each sample.

import { setText } from "./dom.js";
import { formatClock, formatCount, formatSeconds } from "./format.js";
import { FONT, colours, onThemeChange, sharpContext } from "./theme.js";

const LEFT = 4, RIGHT = 6, TOP = 6, BOTTOM = 17, LANES_TOP = 36, LANE_HEIGHT = 16;

export class Charts {
  constructor(store) {
    this.store = store;
    this.span = 300;
    this.hover = null;
    this.list = [
      new LineChart(this, "latency", { format: formatSeconds, least: 0.2, series: (s) => [["", "s0", s.map((r) => r[4])]] }),
      new LineChart(this, "lag", { format: formatSeconds, least: 0.2, series: (s) => [["", "s1", s.map((r) => r[1])]] }),
      new LineChart(this, "rate", { format: formatCount, least: 9, total: flowText, series: (s) => [["in", "s0", s.map((r) => r[2])], ["out", "s2", s.map((r) => r[3])]] }),
      new LineChart(this, "cpu", { format: (v) => `${Number(v.toFixed(2))}`, least: 0.18, total: coresText, series: cpuSeries }),
      new FaultTimeline(this),
    ];
    onThemeChange(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(document.querySelector(".charts"));
  }

  range() {
    const past = this.store.hello?.past;
    const end = this.store.now(), begin = this.store.samples[0]?.[0] ?? end - 60;
    const from = past ? Math.max(axisStart(past, end), end - this.span) : Math.max(end - this.span, Math.min(begin, end - 60));
    return [from, Math.max(end, from + 10)];
  }

  // Show the figures at a moment instead of the newest ones; null ends this.
  pointAt(at) {
    this.hover = at;
    this.draw();
  }

  // Return the index of the sample nearest to the pointer, or -1.
  nearest(samples) {
    return samples.reduce((best, row, k) => (best < 0 || Math.abs(row[0] - this.hover) < Math.abs(samples[best][0] - this.hover) ? k : best), -1);
  }

  // Move the pointer to the previous or next sample.
  step(by) {
    const [from, to] = this.range();
    const times = this.store.samples.map((row) => row[0]).filter((at) => at >= from && at <= to);
    if (!times.length) return;
    const at = this.hover === null ? times.length : times.findLastIndex((time) => time <= this.hover + 1e-3);
    this.pointAt(times[Math.max(0, Math.min(times.length - 1, at + by))]);
  }

  draw() {
    for (const chart of this.list) chart.draw();
  }
}

// Return where the time axis of a finished run starts: shortly before its first output, unless an earlier moment is shown.
function axisStart({ from_s, opens_s }, end) {
  return end < from_s + opens_s ? from_s : from_s + Math.max(0, opens_s - 5);
}

// One line per node or, if there are more than four, their sum.
function cpuSeries(samples) {
  const names = [...new Set(samples.flatMap((row) => Object.keys(row[7])))].sort();
  if (names.length > 4) {
    return [["all", "s0", samples.map((row) => Object.values(row[7]).reduce((a, b) => a + b, 0))]];
  }
  return names.map((name, k) => [name, `s${k % 6}`, samples.map((row) => row[7][name] ?? null)]);
}

class TimeChart {
  constructor(charts, id) {
    Object.assign(this, { charts, store: charts.store, canvas: document.getElementById(`c-${id}`), value: document.getElementById(`v-${id}`) });
    this.inView = true;  // a chart outside the window is not drawn
    new IntersectionObserver((entries) => {
      const wasInView = this.inView;
      this.inView = entries[entries.length - 1].isIntersecting;
      if (this.inView && !wasInView) this.draw();
    }).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => {
      const [from, to] = charts.range();
      charts.pointAt(from + ((event.offsetX - LEFT) / (this.canvas.clientWidth - LEFT - RIGHT)) * (to - from));
    });
    this.canvas.addEventListener("pointerleave", () => charts.pointAt(null));
  }

  begin() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width || !this.inView || !this.store.hello) return null;
    const context = sharpContext(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    const [from, to] = this.charts.range();
    const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
    context.font = `10.5px ${FONT}`;
    return { context, width, height, from, to, x };
  }

  drawAxis({ context, width, height, from, to, x }) {
    const steps = [5, 10, 15, 30, 60, 120, 300];
    const step = steps.find((s) => (to - from) / s <= Math.max(2, width / 90)) ?? 600;
    context.fillStyle = colours.faint;
    context.textAlign = "center";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const px = x(at);
      if (px > 26 && px < width - 26) context.fillText(step < 60 ? formatClock(at) : formatClock(at).slice(0, 5), px, height - 4);
    }
    context.textAlign = "left";
  }

  drawFaults({ context, height, from, x }) {
    context.strokeStyle = colours.absent;
    context.globalAlpha = 0.6;
    context.lineWidth = 1;
    context.setLineDash([3, 3]);
    for (const fault of this.store.faults) {
      if (fault.at < from) continue;
      context.beginPath();
      context.moveTo(x(fault.at), 0);
      context.lineTo(x(fault.at), height - BOTTOM);
      context.stroke();
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }
}

class LineChart extends TimeChart {
  constructor(charts, id, { format, least, total, series }) {
    super(charts, id);
    Object.assign(this, { format, least, total, series });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      charts.step(step);
      document.getElementById("time-text").textContent = this.value.textContent;
    });
    this.canvas.addEventListener("blur", () => charts.pointAt(null));
  }

  draw() {
    this.updateValue();
    const frame = this.begin();
    if (!frame) return;
    const { context, width, height, from, x } = frame;
    const samples = this.store.samples.filter((row) => row[0] >= from - 2);
    const series = this.series(samples);
    const top = roundUp(Math.max(this.least, ...series.flatMap(([, , values]) => values.filter((v) => v !== null))));
    const y = (value) => height - BOTTOM - (value / top) * (height - TOP - BOTTOM - 6);
    context.lineWidth = 1;
    for (const fraction of [0, 0.5, 1]) {
      context.strokeStyle = colours.edge;
      context.beginPath();
      context.moveTo(LEFT, y(top * fraction));
      context.lineTo(width - RIGHT, y(top * fraction));
      context.stroke();
    }
    if (!series.some(([, , values]) => values.some((value) => value !== null))) {
      context.fillStyle = colours.faint;
      context.textAlign = "center";
      context.fillText(this.store.hello?.past ? "the history has no such figures" : "no figures yet", width / 2, height / 2);
      context.textAlign = "left";
    }
    this.drawAxis(frame);
    this.drawFaults(frame);
    const ends = [];
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);  // the first sample may be earlier than the axis
    context.clip();
    series.forEach(([name, colour, values]) => {
      this.drawLine(frame, samples, values, y, colours[colour], series.length === 1);
      const last = values.findLast((value) => value !== null);
      if (name && last !== undefined) ends.push([name, y(last), colours[colour]]);
    });
    context.restore();
    if (samples.length) for (const fraction of [0.5, 1]) drawText(context, this.format(top * fraction), LEFT, y(top * fraction) - 3, colours.faint);
    drawLabels(context, ends, width - RIGHT - 2);
    if (this.charts.hover !== null) this.drawPointer(frame, samples, series, y);
  }

  drawLine({ context, height, x }, samples, values, y, colour, filled) {
    let open = false, first = 0;
    const close = (last) => {
      if (!open) return;
      context.strokeStyle = colour;
      context.lineWidth = 1.8;
      context.lineJoin = "round";
      context.stroke();
      if (filled) {
        context.lineTo(x(last), height - BOTTOM);
        context.lineTo(x(first), height - BOTTOM);
        context.globalAlpha = 0.12;
        context.fillStyle = colour;
        context.fill();
        context.globalAlpha = 1;
      }
      open = false;
    };
    let before = 0;
    samples.forEach((row, k) => {
      if (values[k] === null || (open && row[0] - before > 5)) close(before);
      if (values[k] === null) return;
      if (!open) context.beginPath(), context.moveTo(x(row[0]), y(values[k])), first = row[0], open = true;
      else context.lineTo(x(row[0]), y(values[k]));
      before = row[0];
    });
    close(before);
  }

  // Mark the sample at the pointer on every line.
  drawPointer({ context, height, x }, samples, series, y) {
    const k = this.charts.nearest(samples);
    if (k < 0) return;
    context.strokeStyle = colours.faint;
    context.beginPath();
    context.moveTo(x(samples[k][0]), 0);
    context.lineTo(x(samples[k][0]), height - BOTTOM);
    context.stroke();
    for (const [, colour, values] of series) {
      if (values[k] === null) continue;
      context.fillStyle = colours[colour];
      context.beginPath();
      context.arc(x(samples[k][0]), y(values[k]), 3.2, 0, 7);
      context.fill();
    }
  }

  // Show the newest figure, or that at the pointer, as text. This also happens while the chart is outside the window.
  updateValue() {
    const { samples } = this.store, { hover } = this.charts;
    const row = samples[hover === null ? samples.length - 1 : this.charts.nearest(samples)];
    const known = row ? this.series([row]).map(([, , [value]]) => value) : [];
    const text = this.total ? this.total(known, this.format) : this.format(known[0] ?? null);
    setText(this.value.id, hover !== null && row ? `${text} at ${formatClock(row[0])}` : text);
  }
}

const coresText = (known) => (known.some((value) => value !== null) ? `${known.reduce((sum, value) => sum + (value ?? 0), 0).toFixed(2)} cores` : "–");
const flowText = (known, format) => (known.length ? `${format(known[0])} → ${format(known[1] ?? null)} /s` : "–");

// Write the names of lines at their ends, moved apart so that they do not overlap.
function drawLabels(context, ends, right) {
  context.textAlign = "right";
  let ceiling = context.canvas.clientHeight - BOTTOM + 8;
  for (const [name, y, colour] of ends.sort((a, b) => b[1] - a[1])) {
    const at = Math.min(y - 4, ceiling - 11);
    drawText(context, name, right, at, colour);
    ceiling = at;
  }
  context.textAlign = "left";
}

// Write text with an outline, so that it can be read on any background.
function drawText(context, text, x, y, colour) {
  context.strokeStyle = colours.card;
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeText(text, x, y);
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

// Return a round number that is a little larger than the value.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 8, 10].find((step) => step * power >= value * 1.05) * power;
}

class FaultTimeline extends TimeChart {
  constructor(charts) {
    super(charts, "line");
  }

  draw() {
    this.updateValue();
    const frame = this.begin();
    if (!frame) return;
    const { context, height, from, to } = frame;
    this.drawQuality(frame);
    this.drawAxis(frame);
    this.drawFaults(frame);
    const faults = this.store.faults.filter((fault) => fault.at >= from).map((fault) => this.faultMark(frame, fault));
    const outages = this.store.outages.filter((outage) => (outage.to ?? to) >= from).map((outage) => this.outageMark(frame, outage));
    const room = Math.floor((height - BOTTOM - LANES_TOP) / LANE_HEIGHT);
    const packed = pack([...faults, ...outages]);
    const lanes = packed.some(([, lane]) => lane >= room) ? room - 1 : room;  // the last lane shows how many marks do not fit
    for (const [mark, lane] of packed) if (lane < lanes) mark.draw(LANES_TOP + lane * LANE_HEIGHT);
    const hidden = packed.filter(([, lane]) => lane >= lanes).length;
    if (hidden) drawText(context, `and ${hidden} more, in the list of events`, LEFT, LANES_TOP + lanes * LANE_HEIGHT + 10, colours.soft);
  }

  // A fault: a triangle below the band of qualities, and its text in a lane.
  faultMark({ context, width, x }, { at, text }) {
    const px = x(at), font = `600 10.5px ${FONT}`;
    context.fillStyle = colours.absent;
    context.beginPath();
    context.moveTo(px - 6, 21);
    context.lineTo(px + 6, 21);
    context.lineTo(px, 31);
    context.fill();
    context.save();
    context.font = font;
    const textWidth = context.measureText(text).width;
    context.restore();
    const left = Math.max(LEFT, Math.min(px + 5, width - RIGHT - textWidth));
    const draw = (top) => {
      context.save();
      context.font = font;
      drawText(context, text, left, top + 10, colours["absent-text"]);
      context.restore();
    };
    return { begins: Math.min(left, px) - 3, ends: left + textWidth + 8, draw };
  }

  // An outage: a bar, and its text after, before or on the bar, wherever there is room.
  outageMark({ context, width, from, to, x }, outage) {
    const left = x(Math.max(from, outage.from)), right = Math.max(left + 4, x(outage.to ?? to));
    const text = `${outage.name} ${outage.to ? `back after ${formatSeconds(outage.to - outage.from)}` : "down"}`;
    const textWidth = context.measureText(text).width;
    const at = [right + 5, left - 5 - textWidth].find((place) => place >= LEFT && place + textWidth <= width - RIGHT) ?? Math.max(LEFT, Math.min(left + 5, width - RIGHT - textWidth));
    const draw = (top) => {
      context.fillStyle = colours.absent;
      context.globalAlpha = outage.to ? 0.55 : 0.95;
      context.beginPath();
      context.roundRect(left, top, right - left, 12, 4);
      context.fill();
      context.globalAlpha = 1;
      drawText(context, text, at, top + 10, colours.ink);
    };
    return { begins: Math.min(left, at) - 6, ends: Math.max(right, at + textWidth) + 8, draw };
  }

  updateValue() {
    const down = this.store.openOutages.size, faults = this.store.faults.length;
    setText(this.value.id, `${faults} ${faults === 1 ? "fault" : "faults"}, ${this.store.recovered} recovered${down ? `, ${down} down now` : ""}`);
  }

  // Draw the quality of the output as a band, which is lower where the output is not exact.
  drawQuality({ context, from, x }) {
    const samples = this.store.samples;
    for (let k = 0; k < samples.length; k++) {
      const [at, , , , , quality] = samples[k];
      if (at < from - 2 || !quality) continue;
      const next = samples[k + 1]?.[0] ?? at + 1;
      const low = { exact: 0, tentative: 4, predicted: 4, absent: 8 }[quality];
      context.fillStyle = colours[quality];
      context.fillRect(x(Math.max(at, from)), 4 + low, Math.max(1, x(Math.min(next, at + 4)) - x(Math.max(at, from)) + 0.6), 12 - low);
    }
  }
}

// Put each mark into the first lane where it overlaps no other mark. Return pairs of a mark and its lane.
export function pack(marks) {
  const lanes = [];
  return marks.map((mark) => {
    let lane = lanes.findIndex((marksInLane) => marksInLane.every((other) => other.ends <= mark.begins || mark.ends <= other.begins));
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push(mark);
    return [mark, lane];
  });
}
