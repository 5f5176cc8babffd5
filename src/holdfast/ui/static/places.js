// Where tasks stand on the canvas. The server says layers and slots; here they become pixels, in one of three ways.

export const CARD = { w: 154, h: 88 };
const MANY = 18;
const CELL = 15;

// Places of a picture on a canvas so wide: cards along the flow, cards downwards where it is narrow, or blocks of cells.
export function placesOf(picture, width) {
  const layers = new Map();
  picture.tasks.forEach((task, index) => {
    if (!layers.has(task.x)) layers.set(task.x, []);
    layers.get(task.x).push(index);
  });
  const widest = Math.max(0, ...[...layers.values()].map((layer) => layer.length));
  if (widest > MANY || picture.tasks.length > 120) return blocks(picture, layers);
  return cards(picture, width, width < 640);
}

const TALL = 400;

function cards(picture, width, down) {
  const [long, wide] = picture.size;
  const gap = Math.max(22, Math.min(42, (width - 30 - (long + 1) * CARD.w) / Math.max(1, long)));  // where it is tight, words rather than room between them
  const along = down ? CARD.h + 40 : CARD.w + gap;
  let across = down ? CARD.w + 12 : CARD.h + 24;
  if (!down && wide > 0) {  // a graph that is longer than wide uses the height that is left
    const scale = Math.min(1.1, width / (long * along + CARD.w + 30));
    across = Math.max(across, Math.min(210, (TALL / scale - CARD.h) / wide));
  }
  const at = ({ x, y }) => (down ? [y * across + CARD.w / 2, x * along + CARD.h / 2] : [x * along + CARD.w / 2, y * across + CARD.h / 2]);
  const points = picture.tasks.map(at);
  const edges = picture.edges.map((edge) => ({
    from: edge.from, to: edge.to, streams: edge.streams,
    path: curve(points[edge.from], edge.via.map(([x, y]) => at({ x, y })), points[edge.to], down),
  }));
  return bounded({ mode: "cards", down, points, edges, w: CARD.w, h: CARD.h, labels: [] });
}

function blocks(picture, layers) {
  const points = [], labels = [];
  let left = 0, tallest = 0;
  const order = [...layers.keys()].sort((a, b) => a - b);
  const rows = Math.max(10, Math.ceil(Math.sqrt(picture.tasks.length / Math.max(1, order.length)) * 2.2));
  for (const layer of order) {
    const members = layers.get(layer).sort((a, b) => picture.tasks[a].y - picture.tasks[b].y || a - b);
    const columns = Math.ceil(members.length / rows);
    members.forEach((index, place) => {
      points[index] = [left + Math.floor(place / rows) * CELL + CELL / 2, 22 + (place % rows) * CELL + CELL / 2];
    });
    const names = new Set(members.map((index) => picture.tasks[index].name.replace(/\/\d+$/, "")));
    const one = names.size === 1 ? `${[...names][0]}${members.length > 1 ? ` · ${members.length}` : ""}` : `${names.size} PEs`;
    labels.push({ x: left, y: 12, text: one });
    tallest = Math.max(tallest, Math.min(rows, members.length));
    left += Math.max(columns * CELL, 64) + 34;
  }
  const edges = picture.edges.map((edge) => ({
    from: edge.from, to: edge.to, streams: edge.streams, path: curve(points[edge.from], [], points[edge.to], false, CELL / 2, CELL / 2),
  }));
  return bounded({ mode: "blocks", down: false, points, edges, w: CELL - 3, h: CELL - 3, labels });
}

// The points of a smooth way: a list of cubic pieces.
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

function bounded(places) {
  const xs = places.points.map(([x]) => x), ys = places.points.map(([, y]) => y);
  const last = places.labels[places.labels.length - 1];
  places.width = Math.max(0, ...xs) + places.w / 2 + (last ? 40 : 0);
  places.height = Math.max(0, ...ys) + places.h / 2;
  return places;
}

// The point at a share of the way, 0 to 1.
export function along(path, share) {
  const place = Math.min(share * path.length, path.length - 1e-6);
  const [a, b, c, d] = path[Math.floor(place)];
  const t = place % 1, u = 1 - t;
  const mix = (k) => u * u * u * a[k] + 3 * u * u * t * b[k] + 3 * u * t * t * c[k] + t * t * t * d[k];
  return [mix(0), mix(1)];
}
