// Lines over time, and the time line of faults: small canvases that share one axis, drawn when a sample comes.

import { FONT, colours, onTheme, sharp } from "./theme.js";
import { clock, count, say, seconds } from "./words.js";

const LEFT = 4, RIGHT = 6, TOP = 6, BOTTOM = 17, LANES = 36, LANE = 16;

export class Charts {
  constructor(store) {
    this.store = store;
    this.span = 300;
    this.hover = null;
    this.list = [
      new Chart(this, "latency", { unit: seconds, least: 0.2, series: (s) => [["", "s0", s.map((r) => r[4])]] }),
      new Chart(this, "lag", { unit: seconds, least: 0.2, series: (s) => [["", "s1", s.map((r) => r[1])]] }),
      new Chart(this, "rate", { unit: count, least: 9, total: flow, series: (s) => [["in", "s0", s.map((r) => r[2])], ["out", "s2", s.map((r) => r[3])]] }),
      new Chart(this, "cpu", { unit: (v) => `${Number(v.toFixed(2))}`, least: 0.18, total: cores, series: cpu }),
      new Line(this),
    ];
    onTheme(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(document.querySelector(".charts"));
  }

  range() {
    const past = this.store.hello?.past;
    const end = this.store.now(), begin = this.store.samples[0]?.[0] ?? end - 60;
    const from = past ? Math.max(opening(past, end), end - this.span) : Math.max(end - this.span, Math.min(begin, end - 60));
    return [from, Math.max(end, from + 10)];
  }

  point(at) {
    this.hover = at;
    this.draw();
  }

  // The place of the sample that is nearest to what is pointed at, or -1.
  nearest(samples) {
    return samples.reduce((best, row, k) => (best < 0 || Math.abs(row[0] - this.hover) < Math.abs(samples[best][0] - this.hover) ? k : best), -1);
  }

  // Point at the sample before or after the one that is pointed at.
  step(by) {
    const [from, to] = this.range();
    const times = this.store.samples.map((row) => row[0]).filter((at) => at >= from && at <= to);
    if (!times.length) return;
    const at = this.hover === null ? times.length : times.findLastIndex((time) => time <= this.hover + 1e-3);
    this.point(times[Math.max(0, Math.min(times.length - 1, at + by))]);
  }

  draw() {
    for (const chart of this.list) chart.draw();
  }
}

// Where the time axis of a run that is over begins: shortly before its first output, unless what was before that is looked at.
function opening({ from_s, opens_s }, end) {
  return end < from_s + opens_s ? from_s : from_s + Math.max(0, opens_s - 5);
}

function cpu(samples) {
  const names = [...new Set(samples.flatMap((row) => Object.keys(row[7])))].sort();
  if (names.length > 4) {
    return [["all", "s0", samples.map((row) => Object.values(row[7]).reduce((a, b) => a + b, 0))]];
  }
  return names.map((name, k) => [name, `s${k % 6}`, samples.map((row) => row[7][name] ?? null)]);
}

class Base {
  constructor(charts, id) {
    Object.assign(this, { charts, store: charts.store, canvas: document.getElementById(`c-${id}`), value: document.getElementById(`v-${id}`) });
    this.seen = true;  // what is out of sight is not drawn
    new IntersectionObserver((entries) => {
      const was = this.seen;
      this.seen = entries[entries.length - 1].isIntersecting;
      if (this.seen && !was) this.draw();
    }).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => {
      const [from, to] = charts.range();
      charts.point(from + ((event.offsetX - LEFT) / (this.canvas.clientWidth - LEFT - RIGHT)) * (to - from));
    });
    this.canvas.addEventListener("pointerleave", () => charts.point(null));
  }

  begin() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width || !this.seen || !this.store.hello) return null;
    const context = sharp(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    const [from, to] = this.charts.range();
    const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
    context.font = `10.5px ${FONT}`;
    return { context, width, height, from, to, x };
  }

  axis({ context, width, height, from, to, x }) {
    const steps = [5, 10, 15, 30, 60, 120, 300];
    const step = steps.find((s) => (to - from) / s <= Math.max(2, width / 90)) ?? 600;
    context.fillStyle = colours.faint;
    context.textAlign = "center";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const px = x(at);
      if (px > 26 && px < width - 26) context.fillText(step < 60 ? clock(at) : clock(at).slice(0, 5), px, height - 4);
    }
    context.textAlign = "left";
  }

  strikes({ context, height, from, x }) {
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

class Chart extends Base {
  constructor(charts, id, { unit, least, total, series }) {
    super(charts, id);
    Object.assign(this, { unit, least, total, series });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      charts.step(step);
      document.getElementById("time-said").textContent = this.value.textContent;
    });
    this.canvas.addEventListener("blur", () => charts.point(null));
  }

  draw() {
    this.tell();
    const frame = this.begin();
    if (!frame) return;
    const { context, width, height, from, x } = frame;
    const samples = this.store.samples.filter((row) => row[0] >= from - 2);
    const series = this.series(samples);
    const most = nice(Math.max(this.least, ...series.flatMap(([, , values]) => values.filter((v) => v !== null))));
    const y = (value) => height - BOTTOM - (value / most) * (height - TOP - BOTTOM - 6);
    context.lineWidth = 1;
    for (const share of [0, 0.5, 1]) {
      context.strokeStyle = colours.edge;
      context.beginPath();
      context.moveTo(LEFT, y(most * share));
      context.lineTo(width - RIGHT, y(most * share));
      context.stroke();
    }
    if (!series.some(([, , values]) => values.some((value) => value !== null))) {
      context.fillStyle = colours.faint;
      context.textAlign = "center";
      context.fillText(this.store.hello?.past ? "the history holds no figures of this" : "no figures yet", width / 2, height / 2);
      context.textAlign = "left";
    }
    this.axis(frame);
    this.strikes(frame);
    const ends = [];
    series.forEach(([name, colour, values]) => {
      this.line(frame, samples, values, y, colours[colour], series.length === 1);
      const last = values.findLast((value) => value !== null);
      if (name && last !== undefined) ends.push([name, y(last), colours[colour]]);
    });
    if (samples.length) for (const share of [0.5, 1]) write(context, this.unit(most * share), LEFT, y(most * share) - 3, colours.faint);
    label(context, ends, width - RIGHT - 2);
    if (this.charts.hover !== null) this.pointed(frame, samples, series, y);
  }

  line({ context, height, x }, samples, values, y, colour, filled) {
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

  // A mark on every line at the sample that is pointed at.
  pointed({ context, height, x }, samples, series, y) {
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

  // The figure of now, or of the moment that is pointed at; said whether the chart is in sight or not.
  tell() {
    const { samples } = this.store, { hover } = this.charts;
    const row = samples[hover === null ? samples.length - 1 : this.charts.nearest(samples)];
    const known = row ? this.series([row]).map(([, , [value]]) => value) : [];
    const text = this.total ? this.total(known, this.unit) : this.unit(known[0] ?? null);
    say(this.value.id, hover !== null && row ? `${text} at ${clock(row[0])}` : text);
  }
}

const cores = (known) => (known.some((value) => value !== null) ? `${known.reduce((sum, value) => sum + (value ?? 0), 0).toFixed(2)} cores` : "–");
const flow = (known, unit) => (known.length ? `${unit(known[0])} → ${unit(known[1] ?? null)} /s` : "–");

// Names at the ends of lines, moved apart where they would meet.
function label(context, ends, right) {
  context.textAlign = "right";
  let ceiling = context.canvas.clientHeight - BOTTOM + 8;
  for (const [name, y, colour] of ends.sort((a, b) => b[1] - a[1])) {
    const at = Math.min(y - 4, ceiling - 11);
    write(context, name, right, at, colour);
    ceiling = at;
  }
  context.textAlign = "left";
}

// Words that can be read whatever they stand on.
function write(context, text, x, y, colour) {
  context.strokeStyle = colours.card;
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeText(text, x, y);
  context.fillStyle = colour;
  context.fillText(text, x, y);
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 8, 10].find((step) => step * power >= value * 1.05) * power;
}

class Line extends Base {
  constructor(charts) {
    super(charts, "line");
  }

  draw() {
    this.tell();
    const frame = this.begin();
    if (!frame) return;
    const { context, height, from, to } = frame;
    this.ribbon(frame);
    this.axis(frame);
    this.strikes(frame);
    const faults = this.store.faults.filter((fault) => fault.at >= from).map((fault) => this.fault(frame, fault));
    const outages = this.store.outages.filter((outage) => (outage.to ?? to) >= from).map((outage) => this.outage(frame, outage));
    const room = Math.floor((height - BOTTOM - LANES) / LANE);
    const packed = pack([...faults, ...outages]);
    const most = packed.some(([, lane]) => lane >= room) ? room - 1 : room;  // the last lane says what there was no room for
    for (const [mark, lane] of packed) if (lane < most) mark.draw(LANES + lane * LANE);
    const hidden = packed.filter(([, lane]) => lane >= most).length;
    if (hidden) write(context, `and ${hidden} more, in the list of what happened`, LEFT, LANES + most * LANE + 10, colours.soft);
  }

  // A fault: a triangle below the ribbon, and its words in a lane.
  fault({ context, width, x }, { at, text }) {
    const px = x(at), font = `600 10.5px ${FONT}`;
    context.fillStyle = colours.absent;
    context.beginPath();
    context.moveTo(px - 6, 21);
    context.lineTo(px + 6, 21);
    context.lineTo(px, 31);
    context.fill();
    context.save();
    context.font = font;
    const wide = context.measureText(text).width;
    context.restore();
    const left = Math.max(LEFT, Math.min(px + 5, width - RIGHT - wide));
    const draw = (top) => {
      context.save();
      context.font = font;
      write(context, text, left, top + 10, colours["absent-text"]);
      context.restore();
    };
    return { begins: Math.min(left, px) - 3, ends: left + wide + 8, draw };
  }

  // An outage: a bar with its words behind it, before it, or on it, where there is room.
  outage({ context, width, from, to, x }, outage) {
    const left = x(Math.max(from, outage.from)), right = Math.max(left + 4, x(outage.to ?? to));
    const text = `${outage.name} ${outage.to ? `back after ${seconds(outage.to - outage.from)}` : "down"}`;
    const wide = context.measureText(text).width;
    const at = [right + 5, left - 5 - wide].find((place) => place >= LEFT && place + wide <= width - RIGHT) ?? Math.max(LEFT, Math.min(left + 5, width - RIGHT - wide));
    const draw = (top) => {
      context.fillStyle = colours.absent;
      context.globalAlpha = outage.to ? 0.55 : 0.95;
      context.beginPath();
      context.roundRect(left, top, right - left, 12, 4);
      context.fill();
      context.globalAlpha = 1;
      write(context, text, at, top + 10, colours.ink);
    };
    return { begins: Math.min(left, at) - 6, ends: Math.max(right, at + wide) + 8, draw };
  }

  tell() {
    const down = this.store.open.size, many = this.store.faults.length;
    say(this.value.id, `${many} ${many === 1 ? "fault" : "faults"}, ${this.store.recovered} recovered${down ? `, ${down} down now` : ""}`);
  }

  // The quality of the output as a band; what is not exact is lower, too.
  ribbon({ context, from, x }) {
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

// What has a beginning and an end in as few lanes as fit, each in the first where it meets nothing.
export function pack(marks) {
  const lanes = [];
  return marks.map((mark) => {
    let lane = lanes.findIndex((held) => held.every((other) => other.ends <= mark.begins || mark.ends <= other.begins));
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push(mark);
    return [mark, lane];
  });
}
