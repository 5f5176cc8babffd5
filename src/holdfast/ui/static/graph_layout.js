// Convert the layers and slots that the server assigns to tasks into pixels on the canvas.

export const CARD = { w: 154, h: 88 };
const CELL = 15;
const MAX_CARDS = 120, MAX_CARDS_IN_LAYER = 18;
const PREFERRED_HEIGHT = 400;

// Return the layout of a picture for a canvas of this width: cards from left to right, cards downwards if the canvas is narrow,
// or one block of cells per layer if there are many tasks.
export function computeLayout(picture, width) {
  const layers = new Map();
  picture.tasks.forEach((task, index) => {
    if (!layers.has(task.x)) layers.set(task.x, []);
    layers.get(task.x).push(index);
  });
  const largest = Math.max(0, ...[...layers.values()].map((layer) => layer.length));
  if (largest > MAX_CARDS_IN_LAYER || picture.tasks.length > MAX_CARDS) return layOutBlocks(picture, layers);
  return layOutCards(picture, width, width < 640);
}

function layOutCards(picture, width, down) {
  const [long, wide] = picture.size;
  const gap = Math.max(22, Math.min(42, (width - 30 - (long + 1) * CARD.w) / Math.max(1, long)));  // on a narrow canvas, cards keep their size and the gaps shrink
  const along = down ? CARD.h + 40 : CARD.w + gap;
  let across = down ? CARD.w + 12 : CARD.h + 24;
  if (!down && wide > 0) {  // a long graph spreads over the available height
    const scale = Math.min(1.1, width / (long * along + CARD.w + 30));
    across = Math.max(across, Math.min(210, (PREFERRED_HEIGHT / scale - CARD.h) / wide));
  }
  const toPixels = ({ x, y }) => (down ? [y * across + CARD.w / 2, x * along + CARD.h / 2] : [x * along + CARD.w / 2, y * across + CARD.h / 2]);
  const points = picture.tasks.map(toPixels);
  const edges = picture.edges.map((edge) => ({
    from: edge.from, to: edge.to, streams: edge.streams,
    path: curve(points[edge.from], edge.via.map(([x, y]) => toPixels({ x, y })), points[edge.to], down),
  }));
  return addSize({ mode: "cards", down, points, edges, w: CARD.w, h: CARD.h, labels: [] });
}

function layOutBlocks(picture, layers) {
  const points = [], labels = [];
  let left = 0, tallest = 0;
  const order = [...layers.keys()].sort((a, b) => a - b);
  const rows = Math.max(10, Math.ceil(Math.sqrt(picture.tasks.length / Math.max(1, order.length)) * 2.2));
  for (const layer of order) {
    const members = layers.get(layer).sort((a, b) => picture.tasks[a].y - picture.tasks[b].y || a - b);
    const columns = Math.ceil(members.length / rows);
    members.forEach((index, k) => {
      points[index] = [left + Math.floor(k / rows) * CELL + CELL / 2, 22 + (k % rows) * CELL + CELL / 2];
    });
    const names = new Set(members.map((index) => picture.tasks[index].name.replace(/\/\d+$/, "")));
    const text = names.size === 1 ? `${[...names][0]}${members.length > 1 ? ` · ${members.length}` : ""}` : `${names.size} PEs`;
    labels.push({ x: left, y: 12, text });
    tallest = Math.max(tallest, Math.min(rows, members.length));
    left += Math.max(columns * CELL, 64) + 34;
  }
  const edges = picture.edges.map((edge) => ({
    from: edge.from, to: edge.to, streams: edge.streams, path: curve(points[edge.from], [], points[edge.to], false, CELL / 2, CELL / 2),
  }));
  return addSize({ mode: "blocks", down: false, points, edges, w: CELL - 3, h: CELL - 3, labels });
}

// Return a smooth path through these points, as a list of cubic Bézier curves.
function curve(from, via, to, down, halfW = CARD.w / 2, halfH = CARD.h / 2) {
  const start = down ? [from[0], from[1] + halfH] : [from[0] + halfW, from[1]];
  const end = down ? [to[0], to[1] - halfH] : [to[0] - halfW, to[1]];
  const stops = [start, ...via, end];
  const pieces = [];
  for (let k = 1; k < stops.length; k++) {
    const [a, b] = [stops[k - 1], stops[k]];
    const bend = down ? (b[1] - a[1]) / 2 : (b[0] - a[0]) / 2;
    pieces.push(down ? [a, [a[0], a[1] + bend], [b[0], b[1] - bend], b] : [a, [a[0] + bend, a[1]], [b[0] - bend, b[1]], b]);
  }
  return pieces;
}

function addSize(layout) {
  const xs = layout.points.map(([x]) => x), ys = layout.points.map(([, y]) => y);
  const last = layout.labels[layout.labels.length - 1];
  layout.width = Math.max(0, ...xs) + layout.w / 2 + (last ? 40 : 0);
  layout.height = Math.max(0, ...ys) + layout.h / 2;
  return layout;
}

// Return the point at a fraction (0 to 1) of a path.
export function pointOnPath(path, fraction) {
  const position = Math.min(fraction * path.length, path.length - 1e-6);
  const [a, b, c, d] = path[Math.floor(position)];
  const t = position % 1, u = 1 - t;
  const mix = (k) => u * u * u * a[k] + 3 * u * u * t * b[k] + 3 * u * t * t * c[k] + t * t * t * d[k];
  return [mix(0), mix(1)];
}
