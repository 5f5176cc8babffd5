// Draw the parts of the graph on a canvas context: quality shapes, replica chips, tags, paths and boxes.

import { DEAD_STATES, QUALITIES, formatCount, formatSeconds } from "./format.js";
import { CARD } from "./graph_layout.js";
import { FONT, colours } from "./theme.js";

// Return the text below the name on a task's card.
export function cardText(task, row) {
  if (!row || row[0] === "none") return task.kind;
  const [state, , live, , lag, rate] = row;
  if (state === "down") return `down for ${formatSeconds(lag)}`;
  if (state === "starting" || state === "placed") return "starting …";
  if (state === "idle") return "idle";
  const parts = live === null ? [] : [`epoch ${live}`];
  if (lag > 0.05) parts.push(`${formatSeconds(lag)} late`);
  else if (rate !== null) parts.push(`${formatCount(rate)}/s`);
  return state === "finished" ? `finished · ${parts[0] ?? ""}` : parts.join(" · ") || state;
}

// Draw a chip per replica with its node: filled if active, hollow if idle or starting, crossed out if dead.
export function drawChips(context, replicas, left, top) {
  let x = left;
  context.font = `600 10.5px ${FONT}`;
  for (const [, node, state, , active] of replicas) {
    const dead = DEAD_STATES.has(state), running = state === "running" || state === "finished";
    const width = context.measureText(node).width + 22;
    if (x + width > left + CARD.w - 22) {
      context.fillStyle = colours.soft;
      context.fillText("…", x, top + 12);
      return;
    }
    context.fillStyle = colours.sunk;
    context.strokeStyle = dead ? colours.absent : colours.edge;
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(x, top, width, 17, 8.5);
    context.fill();
    context.stroke();
    context.beginPath();
    context.arc(x + 9, top + 8.5, 3.1, 0, 7);
    if (running && active) context.fillStyle = colours.exact, context.fill();
    else if (dead) context.fillStyle = colours.absent, context.fill();
    else context.strokeStyle = running || state === "idle" ? colours.exact : colours.tentative, context.lineWidth = 1.6, context.stroke();
    context.fillStyle = dead ? colours["absent-text"] : colours.soft;
    context.fillText(node, x + 16, top + 12.2);
    if (dead) context.fillRect(x + 15, top + 8.2, width - 21, 1.2);
    x += width + 5;
  }
}

export function drawHatch(context, left, top) {
  context.strokeStyle = colours.absent;
  context.globalAlpha = 0.16;
  context.lineWidth = 4;
  context.beginPath();
  for (let x = left - CARD.h; x < left + CARD.w; x += 12) context.moveTo(x, top + CARD.h), context.lineTo(x + CARD.h, top);
  context.stroke();
  context.globalAlpha = 1;
}

export function drawTag(context, text, right, y, colour) {
  context.font = `650 10.5px ${FONT}`;
  const width = context.measureText(text).width + 12;
  context.fillStyle = colour;
  context.beginPath();
  context.roundRect(right - width, y - 9, width, 17, 8.5);
  context.fill();
  context.fillStyle = colours.card;
  context.fillText(text, right - width + 6, y + 3.4);
}

export function strokePath(context, path) {
  context.beginPath();
  context.moveTo(...path[0][0]);
  for (const [, b, c, d] of path) context.bezierCurveTo(...b, ...c, ...d);
  context.stroke();
}

export function addBox(context, x, y, w, h, radius) {
  context.beginPath();
  context.roundRect(x - w / 2, y - h / 2, w, h, radius);
}

// Return the text, shortened to a width if necessary.
export function shortenText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 1 && context.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}

// Draw the shape of a quality, which can be recognized without its colour: disc, triangle, diamond, cross.
export function drawShape(context, quality, x, y, r) {
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
  addShape(context, quality, x, y, r);
  context.fill();
}

export function addShape(context, quality, x, y, r) {
  if (quality === "exact") context.moveTo(x + r, y), context.arc(x, y, r, 0, 7);
  else if (quality === "tentative") addPolygon(context, [[x, y - r * 1.1], [x + r * 1.1, y + r * 0.9], [x - r * 1.1, y + r * 0.9]]);
  else if (quality === "predicted") addPolygon(context, [[x, y - r * 1.2], [x + r * 1.2, y], [x, y + r * 1.2], [x - r * 1.2, y]]);
  else {
    const a = r * 0.38, b = r;
    addPolygon(context, [[x - b, y - b + a], [x - b + a, y - b], [x, y - a], [x + b - a, y - b], [x + b, y - b + a], [x + a, y],
      [x + b, y + b - a], [x + b - a, y + b], [x, y + a], [x - b + a, y + b], [x - b, y + b - a], [x - a, y]]);
  }
}

function addPolygon(context, points) {
  context.moveTo(...points[0]);
  for (const point of points.slice(1)) context.lineTo(...point);
  context.closePath();
}
