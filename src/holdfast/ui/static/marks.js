// The parts of a drawing: shapes, chips, tags, ways. Each draws on a context it is given.

import { CARD } from "./places.js";
import { FONT, colours } from "./theme.js";
import { DEAD, QUALITIES, count, seconds } from "./words.js";

// What a card says under its name.
export function said(task, row) {
  if (!row || row[0] === "none") return task.kind;
  const [state, , live, , lag, rate] = row;
  if (state === "down") return `down for ${seconds(lag)}`;
  if (state === "starting" || state === "placed") return "starting …";
  if (state === "idle") return "idle";
  const parts = live === null ? [] : [`epoch ${live}`];
  if (lag > 0.05) parts.push(`${seconds(lag)} late`);
  else if (rate !== null) parts.push(`${count(rate)}/s`);
  return state === "finished" ? `finished · ${parts[0] ?? ""}` : parts.join(" · ") || state;
}

export function chips(context, replicas, left, top) {
  let x = left;
  context.font = `600 10.5px ${FONT}`;
  for (const [, node, state, , active] of replicas) {
    const dead = DEAD.has(state), going = state === "running" || state === "finished";
    const wide = context.measureText(node).width + 22;
    if (x + wide > left + CARD.w - 22) {
      context.fillStyle = colours.soft;
      context.fillText("…", x, top + 12);
      return;
    }
    context.fillStyle = colours.sunk;
    context.strokeStyle = dead ? colours.absent : colours.edge;
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(x, top, wide, 17, 8.5);
    context.fill();
    context.stroke();
    context.beginPath();
    context.arc(x + 9, top + 8.5, 3.1, 0, 7);
    if (going && active) context.fillStyle = colours.exact, context.fill();
    else if (dead) context.fillStyle = colours.absent, context.fill();
    else context.strokeStyle = going || state === "idle" ? colours.exact : colours.tentative, context.lineWidth = 1.6, context.stroke();
    context.fillStyle = dead ? colours["absent-text"] : colours.soft;
    context.fillText(node, x + 16, top + 12.2);
    if (dead) context.fillRect(x + 15, top + 8.2, wide - 21, 1.2);
    x += wide + 5;
  }
}

export function hatch(context, left, top) {
  context.strokeStyle = colours.absent;
  context.globalAlpha = 0.16;
  context.lineWidth = 4;
  context.beginPath();
  for (let x = left - CARD.h; x < left + CARD.w; x += 12) context.moveTo(x, top + CARD.h), context.lineTo(x + CARD.h, top);
  context.stroke();
  context.globalAlpha = 1;
}

export function tag(context, text, right, y, colour) {
  context.font = `650 10.5px ${FONT}`;
  const wide = context.measureText(text).width + 12;
  context.fillStyle = colour;
  context.beginPath();
  context.roundRect(right - wide, y - 9, wide, 17, 8.5);
  context.fill();
  context.fillStyle = colours.card;
  context.fillText(text, right - wide + 6, y + 3.4);
}

export function trace(context, path) {
  context.beginPath();
  context.moveTo(...path[0][0]);
  for (const [, b, c, d] of path) context.bezierCurveTo(...b, ...c, ...d);
  context.stroke();
}

export function box(context, x, y, w, h, radius) {
  context.beginPath();
  context.roundRect(x - w / 2, y - h / 2, w, h, radius);
}

export function fitting(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 1 && context.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}

// One shape per quality, so that colour is never needed: disc, triangle, diamond, cross.
export function shape(context, quality, x, y, r) {
  if (!QUALITIES.includes(quality)) {
    context.strokeStyle = colours.none;
    context.lineWidth = 1.6;
    context.setLineDash([3, 2]);
    context.beginPath();
    context.arc(x, y, r - 1, 0, 7);
    context.stroke();
    context.setLineDash([]);
    return;
  }
  context.fillStyle = colours[quality];
  context.beginPath();
  outlineOf(context, quality, x, y, r);
  context.fill();
}

export function outlineOf(context, quality, x, y, r) {
  if (quality === "exact") context.moveTo(x + r, y), context.arc(x, y, r, 0, 7);
  else if (quality === "tentative") polygon(context, [[x, y - r * 1.1], [x + r * 1.1, y + r * 0.9], [x - r * 1.1, y + r * 0.9]]);
  else if (quality === "predicted") polygon(context, [[x, y - r * 1.2], [x + r * 1.2, y], [x, y + r * 1.2], [x - r * 1.2, y]]);
  else {
    const a = r * 0.38, b = r;
    polygon(context, [[x - b, y - b + a], [x - b + a, y - b], [x, y - a], [x + b - a, y - b], [x + b, y - b + a], [x + a, y],
      [x + b, y + b - a], [x + b - a, y + b], [x, y + a], [x - b + a, y + b], [x - b, y + b - a], [x - a, y]]);
  }
}

function polygon(context, points) {
  context.moveTo(...points[0]);
  for (const point of points.slice(1)) context.lineTo(...point);
  context.closePath();
}
