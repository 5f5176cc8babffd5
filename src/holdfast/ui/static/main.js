// Connect the parts of the page: the feed fills the store, and each animation frame draws what has changed.

import { tabStorage } from "./browser_storage.js";
import { Charts } from "./charts.js";
import { Detail } from "./detail.js";
import { element, setText, updateChildren } from "./dom.js";
import { FaultDialog } from "./fault_dialog.js";
import { Feed, InvalidToken, callApi } from "./feed.js";
import { Graph } from "./graph.js";
import { Events, Jobs, Nodes, Plan, Tasks, renderLegend } from "./lists.js";
import { Player } from "./player.js";
import { Store } from "./store.js";
import { renderSummary } from "./summary_cards.js";
import { toggleTheme } from "./theme.js";

const LIST_INTERVAL_MS = 250, HIDDEN_LIMIT_MS = 30000, FRAME_INTERVAL_S = 1 / 60, FEED_LENGTH_S = 86400;
const get = (id) => document.getElementById(id);
const store = new Store();
let job = 0;
readAddress();

const token = () => tabStorage.getItem("holdfast-token") ?? "";
async function whatIf(kind, name) {
  if (!store.picture || store.ended) return null;
  try {
    return await callApi(`/v1/jobs/${store.picture.job}/consequences?${new URLSearchParams({ [kind]: name })}${player.momentQuery()}`, token());
  } catch (error) {
    showToast(error.message);
    return null;
  }
}

const graph = new Graph(get("graph"), store, { selectTask, openTask });
const charts = new Charts(store);
const detail = new Detail(store, { whatIf, openFaultDialog: (...target) => faultDialog.open(...target), selectTask });
const tasks = new Tasks(store, { selectTask, openTask });
const nodes = new Nodes(store, { openTask, showLoss: async (name) => showLoss(name, await whatIf("node", name)) });
const plan = new Plan(store, { openTask });
const events = new Events(store);
const jobList = new Jobs(store, { followJob });
const player = new Player(store, { restart: () => { clearJob(); feed.start(); } });
const faultDialog = new FaultDialog(store, {
  whatIf, onInjected: (text) => showToast(`Injected: ${text}`),
  inject: (body) => callApi("/v1/faults", token(), { method: "POST", body: JSON.stringify(body) }),
});
const feed = new Feed({
  path: () => `/v1/feed?${new URLSearchParams({ job, every_s: FRAME_INTERVAL_S.toFixed(4), wait_s: FEED_LENGTH_S, after: store.newest })}${player.query()}`,
  token, onState: showConnection,
  onFrame: (frame) => { store.apply(frame); requestDraw(); },
});

// Draw at most once per animation frame, and lists at most four times per second.
let drawRequest = 0, listsDrawnMs = 0, listTimer = 0, tasksChanged = false;
function requestDraw() {
  drawRequest ||= requestAnimationFrame(draw);
}

function draw(at) {
  drawRequest = 0;
  const { dirty } = store;
  if (dirty.delete("hello")) renderAbout(), dirty.add("jobs");  // first, because it enables the button for faults
  if (dirty.has("picture")) renderPicture();
  if (dirty.has("tasks")) graph.update(), tasksChanged = true;
  dirty.delete("tasks");
  dirty.delete("picture");
  if (at - listsDrawnMs < LIST_INTERVAL_MS) {
    listTimer ||= setTimeout(() => { listTimer = 0; requestDraw(); }, LIST_INTERVAL_MS);
    return;
  }
  listsDrawnMs = at;
  if (dirty.has("samples") || dirty.has("events")) charts.draw();
  if (dirty.has("jobs")) renderJobs();
  if (dirty.has("tasks") || tasksChanged) tasks.render(), detail.render(), nodes.render();
  else if (dirty.has("nodes")) nodes.render();
  if (dirty.has("events")) events.render();
  renderSummary(store);
  player.render();
  tasksChanged = false;
  dirty.clear();
}

let selection = null;  // the selected task; it stays selected after a reconnection or a seek
function renderPicture() {
  const shown = store.picture;
  const index = selection && shown?.job === selection.job ? store.taskIndex(selection.name) : -1;
  graph.selected = tasks.selected = index;
  graph.overlay = null;
  graph.update();
  tasks.picture();
  plan.picture();
  detail.showTask(index);
  events.rebuild();
  setText("graph-title", shown ? shown.application ?? shown.name : "The application");
  get("graph-empty").hidden = !!shown;
  get("graph").hidden = !shown;
  const missing = job && !store.jobs.some((each) => each.id === job);
  setText("graph-empty", shown ? "" : missing ? `Job ${job} is not running: it has ended or never existed.` : store.jobs.length ? "This job has no tasks yet." : "No job is running. Submit one with holdfast submit, or start holdfast run.");
}

function renderJobs() {
  const select = get("job");
  const options = store.jobs.map((each) => [String(each.id), `${each.name} · job ${each.id}`]);
  const shown = store.picture?.job ?? (job || store.jobs[0]?.id);
  const line = store.jobs.find((each) => each.id === shown);
  if (shown && !line) options.unshift([String(shown), store.picture ? `${store.picture.name} · job ${shown}` : `job ${shown}`]);
  updateChildren(select, (options.length ? options : [["0", "no job"]]).map(([value, text]) => element("option", { value, "data-key": value }, text)));
  select.disabled = options.length < 1;
  if (shown) select.value = String(shown);
  get("job-state").hidden = !line && !store.ended;
  if (line) setText("job-state", line.state);
  if (store.ended) {
    const state = store.events.findLast((event) => event.kind === "job" && event.job === shown)?.text.split(":")[0].split(" -> ")[1];
    setText("job-state", state ?? "ended");
  }
  jobList.render();
  if (!store.picture) renderPicture();
  document.title = line ? `${line.name}: ${line.state} · holdfast` : "holdfast";
}

function renderAbout() {
  const { hello } = store;
  get("fault-open").disabled = !hello.faults;
  get("fault-open").title = hello.faults ? "Inject a fault (f)" : hello.past ? "A finished run takes no faults" : "Start the orchestrator with --faults to allow it";
  setText("about", hello.past ? `holdfast ${hello.version} · a finished run, from its history` : `holdfast ${hello.version} · orchestrator of term ${hello.term}`);
  if (hello.past) showConnection("past");
}

// Select a task in all parts of the page; -1 deselects.
function selectTask(index) {
  selection = index < 0 ? null : { job: store.picture.job, name: store.picture.tasks[index].name };
  graph.overlay = null;
  graph.select(index);
  tasks.selected = index;
  tasks.render();
  if (index >= 0) tasks.reveal(index);
  detail.showTask(index);
  const task = store.picture?.tasks[index], row = store.rows[index];
  setText("graph-text", task ? `${task.name}: ${row?.[1] ?? row?.[0] ?? "unknown"}, epoch ${row?.[2] ?? "unknown"}, ${row?.[7].length ?? 0} replicas` : "");
}

// Select a task and scroll to its details.
function openTask(index) {
  selectTask(index);
  if (index >= 0) get("detail").scrollIntoView({ block: "nearest" });
}

// Show in the graph and in words what would happen if a node were lost.
function showLoss(name, answer) {
  if (!answer) return;
  selectTask(-1);
  graph.overlay = {
    down: new Set(answer.down), late: new Set(answer.late), continues: new Set(answer.continues),
    downstream: new Set(answer.downstream.filter((each) => !answer.continues.includes(each) || answer.down.length)),
    becomes: answer.becomes,
  };
  graph.wake();
  detail.showLoss(name, answer);
  get("stage").scrollIntoView({ block: "nearest" });
}

function showConnection(state, text) {
  if (state === "live" && store.hello?.past) state = "past";
  const pill = get("link");
  if (pill.dataset.state === state && !text) return;
  pill.dataset.state = state;
  setText("link-text", { connecting: "connecting", live: "live", past: "playback", disconnected: "disconnected, retrying", token: "token needed" }[state]);
  pill.title = text ?? "";
  if (state === "token") askToken(text);
}

function askToken(text) {
  if (token()) setText("token-error", text);
  if (!get("token-dialog").open) get("token-dialog").showModal();
  get("token").focus();
}

// Read the token and the job from the address, and remove the token from it. Return whether there was either.
function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  if (!address.has("token") && !address.has("job")) return false;
  if (address.get("token")) tabStorage.setItem("holdfast-token", address.get("token"));
  job = Number(address.get("job")) || 0;
  writeAddress();
  return true;
}

function writeAddress() {
  history.replaceState(null, "", job ? `#job=${job}` : location.pathname + location.search);
}

// Remove the data of the job that is shown.
function clearJob() {
  store.clear();
  store.events = [];
  store.newest = 0;
  store.dirty.add("picture").add("tasks").add("samples");
  events.rebuild();
}

function followJob(number) {
  job = number;
  writeAddress();
  clearJob();
  feed.start();
}

let toastTimer = 0;
function showToast(text) {
  get("toast").hidden = false;
  setText("toast", text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { get("toast").hidden = true; setText("toast", ""); }, 4000);
}

get("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  tabStorage.setItem("holdfast-token", get("token").value.trim());
  callApi("/v1/feed?wait_s=0", token(), {}).then(() => {}, (error) => error).then((error) => {
    if (error instanceof InvalidToken) return askToken(error.message);
    get("token").value = "";
    closeTokenDialog();
    return feed.start();
  });
});
function closeTokenDialog() {
  setText("token-error", "");
  showConnection("connecting");
  get("token-dialog").close();
}
get("token-dialog").addEventListener("cancel", (event) => event.preventDefault());
get("token-dialog").addEventListener("close", () => { if (get("link").dataset.state === "token") askToken(""); });  // the browser closes it on a second Escape
addEventListener("hashchange", () => {
  if (!readAddress()) return;
  closeTokenDialog();
  clearJob();
  feed.start();
});
get("job").addEventListener("change", () => followJob(Number(get("job").value)));
get("theme").addEventListener("click", toggleTheme);
get("help-open").addEventListener("click", () => get("help-dialog").showModal());
get("help-dialog").addEventListener("submit", (event) => { event.preventDefault(); get("help-dialog").close(); });
get("fault-open").addEventListener("click", () => faultDialog.open());
get("zoom-in").addEventListener("click", () => graph.zoom(1.25));
get("zoom-out").addEventListener("click", () => graph.zoom(0.8));
get("zoom-fit").addEventListener("click", () => graph.fit());
for (const button of document.querySelectorAll("[data-span]")) {
  button.addEventListener("click", () => {
    for (const each of document.querySelectorAll("[data-span]")) each.setAttribute("aria-pressed", each === button);
    charts.span = Number(button.dataset.span);
    charts.draw();
  });
}
get("graph").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && graph.selected >= 0) get("detail").focus();
});

const KEYS = {
  __proto__: null,
  g: () => get("graph").focus(), f: () => { if (!get("fault-open").disabled) faultDialog.open(); }, t: toggleTheme, "?": () => get("help-dialog").showModal(),
  "/": () => get("filter").focus(), "+": () => graph.zoom(1.25), "-": () => graph.zoom(0.8), 0: () => graph.fit(),
  "[": () => followNeighbour(1), "]": () => followNeighbour(-1), Escape: () => selectTask(-1),
};
// Follow the job before (1) or after (-1) the current one: jobs are listed newest first.
function followNeighbour(step) {
  const at = store.jobs.findIndex((each) => each.id === store.picture?.job) + step;
  if (store.jobs[at]) followJob(store.jobs[at].id);
}
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]):not([type=range]),select,textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

setInterval(() => { if (!document.hidden && store.picture) charts.draw(), renderSummary(store), player.render(); }, 1000);
// A hidden page disconnects after a while, because a browser allows few connections for all its tabs. It catches up later.
let hiddenTimer = 0, disconnected = false;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden && !store.hello?.past) hiddenTimer = setTimeout(() => { disconnected = true; feed.stop(); }, HIDDEN_LIMIT_MS);
  if (document.hidden) return;
  if (disconnected) feed.start();
  disconnected = false;
  requestDraw();
});
renderLegend();
if (token()) feed.start();
else showConnection("token", "");
window.holdfast = { store, graph, charts };  // for tests and benchmarks
