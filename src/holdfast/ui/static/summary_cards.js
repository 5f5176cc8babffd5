// The row of cards at the top: the quality of the output, the tasks by quality, replicas, nodes and recoveries.

import { element, qualityMark, setText } from "./dom.js";
import { DEAD_STATES, QUALITIES, QUALITY_MEANINGS, formatSeconds } from "./format.js";

export function renderSummary(store) {
  renderOutput(store);
  renderQualityBar(store);
  renderReplicas(store);
  renderNodes(store);
  renderRecoveries(store);
}

function renderOutput(store) {
  const quality = store.quality();
  const card = document.querySelector(".output");
  if (card.dataset.quality !== (quality ?? "")) {
    card.dataset.quality = quality ?? "";
    document.getElementById("out-mark").className = `mark ${quality ?? "waiting"}`;
    const text = document.getElementById("out-quality");
    text.className = quality ? `t-${quality}` : "";
    text.textContent = quality ?? (store.picture ? "waiting" : "–");
  }
  let since = null;
  for (let k = store.samples.length - 1; k >= 0 && store.samples[k][5] === quality; k--) since = store.samples[k][0];
  const age = quality && since !== null ? formatSeconds(Math.max(0, store.now() - since)) : null;
  setText("out-note", age ? `${QUALITY_MEANINGS[quality]}, for ${age}` : store.picture ? "no output yet" : "no job is selected");
}

function renderQualityBar(store) {
  const counts = Object.fromEntries(QUALITIES.map((quality) => [quality, 0]));
  let none = 0;
  for (const row of store.rows) row?.[1] in counts ? (counts[row[1]] += 1) : (none += 1);
  const key = JSON.stringify([counts, none]);
  const bar = document.getElementById("stack");
  if (bar.dataset.key === key) return;
  bar.dataset.key = key;
  const parts = [...QUALITIES.map((quality) => [quality, counts[quality]]), ["none", none]].filter(([, count]) => count);
  bar.replaceChildren(...parts.map(([quality, count]) => {
    const part = element("span", { class: `b-${quality}` });
    part.style.flexGrow = count;
    return part;
  }));
  const labels = parts.map(([quality, count]) => (quality === "none"
    ? element("span", {}, qualityMark(null), `${count} no output \u00a0`)
    : element("span", {}, qualityMark(quality), `${count} ${quality} \u00a0`)));
  document.getElementById("stack-text").replaceChildren(...(labels.length ? labels : ["\u00a0"]));
}

function renderReplicas(store) {
  const states = store.rows.flatMap((row) => (row?.[7] ?? []).map(([, , state]) => state));
  const alive = states.filter((state) => !DEAD_STATES.has(state)).length;
  setFigure("replicas-big", states.length ? `${alive}` : "–", states.length ? ` of ${states.length} alive` : "");
  const replicated = store.rows.filter((row) => (row?.[7].length ?? 0) > 1).length;
  setText("replicas-note", states.length ? `${replicated} of ${store.rows.length} tasks have several` : "\u00a0");
}

function renderNodes(store) {
  const nodes = [...store.nodes.values()], lost = nodes.filter((node) => node.state === "lost").map((node) => node.name);
  setFigure("nodes-big", nodes.length ? `${nodes.length - lost.length}` : "–", nodes.length ? ` of ${nodes.length} up` : "");
  setText("nodes-note", lost.length ? `lost: ${lost.slice(0, 4).join(", ")}` : nodes.length ? "none is lost" : "none has registered");
}

function renderRecoveries(store) {
  const recovered = store.outages.filter((outage) => outage.to !== null && !outage.who.startsWith("node "));
  const down = [...store.openOutages.keys()].filter((who) => !who.startsWith("node ")).length;
  setFigure("recoveries-big", `${store.recovered}`, down ? ` · ${down} down` : "");
  const last = recovered[recovered.length - 1];
  setText("recoveries-note", last ? `last: ${last.name} after ${formatSeconds(last.to - last.from)}` : down ? "none has recovered yet" : "nothing has failed");
}

// Show a large figure and a smaller text after it.
function setFigure(id, figure, text) {
  const node = document.getElementById(id), key = figure + text;
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.replaceChildren(figure, element("small", {}, text));
}
