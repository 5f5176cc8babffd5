// Puts the page together: the feed fills the store, and once per animation frame what changed is drawn.

import { Charts } from "./charts.js";
import { Detail } from "./detail.js";
import { Feed, WrongToken, ask } from "./feed.js";
import { glance } from "./glance.js";
import { Graph } from "./graph.js";
import { tab } from "./keeping.js";
import { Events, Jobs, Nodes, Plan, Tasks, legend } from "./lists.js";
import { Player } from "./player.js";
import { Store } from "./store.js";
import { Strike } from "./strike.js";
import { toggleTheme } from "./theme.js";
import { element, fill, say } from "./words.js";

const LISTS_MS = 250, REST_MS = 30000, EVERY_S = 1 / 60, FOLLOW_S = 86400;
const get = (id) => document.getElementById(id);
const store = new Store();
let job = 0;
takeAddress();

const token = () => tab.getItem("holdfast-token") ?? "";
async function whatIf(kind, name) {
  if (!store.picture || store.gone) return null;
  try {
    return await ask(`/v1/jobs/${store.picture.job}/consequences?${new URLSearchParams({ [kind]: name })}${player.moment()}`, token());
  } catch (error) {
    said(error.message);
    return null;
  }
}

const graph = new Graph(get("graph"), store, { choose, show });
const charts = new Charts(store);
const detail = new Detail(store, { whatIf, strike: (...whom) => strike.open(...whom), show: choose });
const tasks = new Tasks(store, { choose, show });
const nodes = new Nodes(store, { choose: show, lose: async (name) => imagine(name, await whatIf("node", name)) });
const plan = new Plan(store, { choose: show });
const events = new Events(store);
const list = new Jobs(store, { follow });
const player = new Player(store, { restart: () => { forget(); feed.start(); } });
const strike = new Strike(store, {
  whatIf, said: (text) => said(`Struck: ${text}`),
  inject: (body) => ask("/v1/faults", token(), { method: "POST", body: JSON.stringify(body) }),
});
const feed = new Feed({
  path: () => `/v1/feed?${new URLSearchParams({ job, every_s: EVERY_S.toFixed(4), wait_s: FOLLOW_S, after: store.newest })}${player.query()}`,
  token, state: linked,
  frame: (frame) => { store.apply(frame); wake(); },
});

// What has been drawn of the store: at most once per frame, lists at most four times a second.
let waiting = 0, listed = 0, later = 0, touched = false;
function wake() {
  waiting ||= requestAnimationFrame(draw);
}

function draw(at) {
  waiting = 0;
  const { dirty } = store;
  if (dirty.delete("hello")) about(), dirty.add("jobs");  // what may be done here is known as soon as anything is seen
  if (dirty.has("picture")) picture();
  if (dirty.has("tasks")) graph.update(), touched = true;
  dirty.delete("tasks");
  dirty.delete("picture");
  if (at - listed < LISTS_MS) {
    later ||= setTimeout(() => { later = 0; wake(); }, LISTS_MS);
    return;
  }
  listed = at;
  if (dirty.has("samples") || dirty.has("events")) charts.draw();
  if (dirty.has("jobs")) jobs();
  if (dirty.has("tasks") || touched) tasks.render(), detail.render(), nodes.render();
  else if (dirty.has("nodes")) nodes.render();
  if (dirty.has("events")) events.render();
  glance(store);
  player.show();
  touched = false;
  dirty.clear();
}

let held = null;  // the task that the reader has chosen: it stays so over a connection that broke, and over a seek
function picture() {
  const shown = store.picture;
  const index = held && shown?.job === held.job ? store.taskIndex(held.name) : -1;
  graph.chosen = tasks.chosen = index;
  graph.overlay = null;
  graph.update();
  tasks.picture();
  plan.picture();
  detail.choose(index);
  events.rebuild();
  say("graph-title", shown ? shown.application ?? shown.name : "The application");
  get("graph-empty").hidden = !!shown;
  get("graph").hidden = !shown;
  const away = job && !store.jobs.some((each) => each.id === job);
  say("graph-empty", shown ? "" : away ? `Job ${job} does not run here; it has ended, or never was.` : store.jobs.length ? "This job has no tasks yet." : "No job runs here. Hand one in with holdfast submit, or start holdfast run.");
}

function jobs() {
  const select = get("job");
  const known = store.jobs.map((each) => [String(each.id), `${each.name} · job ${each.id}`]);
  const shown = store.picture?.job ?? (job || store.jobs[0]?.id);
  const line = store.jobs.find((each) => each.id === shown);
  if (shown && !line) known.unshift([String(shown), store.picture ? `${store.picture.name} · job ${shown}` : `job ${shown}`]);
  fill(select, (known.length ? known : [["0", "no job"]]).map(([value, text]) => element("option", { value, "data-key": value }, text)));
  select.disabled = known.length < 1;
  if (shown) select.value = String(shown);
  get("job-state").hidden = !line && !store.gone;
  if (line) say("job-state", line.state);
  if (store.gone) {
    const told = store.events.findLast((event) => event.kind === "job" && event.job === shown)?.text.split(":")[0].split(" -> ")[1];
    say("job-state", told ?? "ended");
  }
  list.render();
  if (!store.picture) picture();
  document.title = line ? `${line.name}: ${line.state} · holdfast` : "holdfast";
}

function about() {
  const { hello } = store;
  get("fault-open").disabled = !hello.faults;
  get("fault-open").title = hello.faults ? "Inject a fault (f)" : hello.past ? "A run that is over takes no faults" : "Start the orchestrator with --faults to allow it";
  say("about", hello.past ? `holdfast ${hello.version} · a run that is over, from its history` : `holdfast ${hello.version} · orchestrator of term ${hello.term}`);
  if (hello.past) linked("past");
}

// Show a task everywhere; -1 lets go.
function choose(index) {
  held = index < 0 ? null : { job: store.picture.job, name: store.picture.tasks[index].name };
  graph.overlay = null;
  graph.select(index);
  tasks.chosen = index;
  tasks.render();
  if (index >= 0) tasks.reveal(index);
  detail.choose(index);
  const task = store.picture?.tasks[index], row = store.rows[index];
  say("graph-said", task ? `${task.name}: ${row?.[1] ?? row?.[0] ?? "not known"}, epoch ${row?.[2] ?? "unknown"}, ${row?.[7].length ?? 0} replicas` : "");
}

// Choose a task and bring what is said of it into sight: it may stand above or, where it is narrow, below.
function show(index) {
  choose(index);
  if (index >= 0) get("detail").scrollIntoView({ block: "nearest" });
}

function imagine(name, answer) {
  if (!answer) return;
  choose(-1);
  graph.overlay = {
    down: new Set(answer.down), late: new Set(answer.late), goes: new Set(answer.continues),
    downstream: new Set(answer.downstream.filter((each) => !answer.continues.includes(each) || answer.down.length)),
    becomes: answer.becomes,
  };
  graph.wake();
  detail.lose(name, answer);
  get("stage").scrollIntoView({ block: "nearest" });
}

function linked(state, text) {
  if (state === "live" && store.hello?.past) state = "past";
  const pill = get("link");
  if (pill.dataset.state === state && !text) return;
  pill.dataset.state = state;
  say("link-said", { connecting: "connecting", live: "live", past: "playback", away: "away, trying again", token: "token needed" }[state]);
  pill.title = text ?? "";
  if (state === "token") askToken(text);
}

function askToken(text) {
  if (token()) say("token-wrong", text);
  if (!get("token-dialog").open) get("token-dialog").showModal();
  get("token").focus();
}

// Take what the address says: a token, which leaves it at once, and a job. Whether it said anything.
function takeAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  if (!address.has("token") && !address.has("job")) return false;
  if (address.get("token")) tab.setItem("holdfast-token", address.get("token"));
  job = Number(address.get("job")) || 0;
  remember();
  return true;
}

function remember() {
  history.replaceState(null, "", job ? `#job=${job}` : location.pathname + location.search);
}

function forget() {
  store.clear();
  store.events = [];
  store.newest = 0;
  store.dirty.add("picture").add("tasks").add("samples");
  events.rebuild();
}

function follow(number) {
  job = number;
  remember();
  forget();
  feed.start();
}

let hide = 0;
function said(text) {
  get("toast").hidden = false;
  say("toast", text);
  clearTimeout(hide);
  hide = setTimeout(() => { get("toast").hidden = true; say("toast", ""); }, 4000);
}

get("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  tab.setItem("holdfast-token", get("token").value.trim());
  ask("/v1/feed?wait_s=0", token(), {}).then(() => {}, (error) => error).then((error) => {
    if (error instanceof WrongToken) return askToken(error.message);
    get("token").value = "";
    tokenTaken();
    return feed.start();
  });
});
function tokenTaken() {
  say("token-wrong", "");
  linked("connecting");
  get("token-dialog").close();
}
get("token-dialog").addEventListener("cancel", (event) => event.preventDefault());
get("token-dialog").addEventListener("close", () => { if (get("link").dataset.state === "token") askToken(""); });  // a second Escape closes it all the same
addEventListener("hashchange", () => {
  if (!takeAddress()) return;
  tokenTaken();
  forget();
  feed.start();
});
get("job").addEventListener("change", () => follow(Number(get("job").value)));
get("theme").addEventListener("click", toggleTheme);
get("help-open").addEventListener("click", () => get("help-dialog").showModal());
get("help-dialog").addEventListener("submit", (event) => { event.preventDefault(); get("help-dialog").close(); });
get("fault-open").addEventListener("click", () => strike.open());
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
  if (event.key === "Enter" && graph.chosen >= 0) get("detail").focus();
});

const KEYS = {
  __proto__: null,
  g: () => get("graph").focus(), f: () => { if (!get("fault-open").disabled) strike.open(); }, t: toggleTheme, "?": () => get("help-dialog").showModal(),
  "/": () => get("filter").focus(), "+": () => graph.zoom(1.25), "-": () => graph.zoom(0.8), 0: () => graph.fit(),
  "[": () => beside(1), "]": () => beside(-1), Escape: () => choose(-1),
};
function beside(step) {
  const at = store.jobs.findIndex((each) => each.id === store.picture?.job) + step;
  if (store.jobs[at]) follow(store.jobs[at].id);
}
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]):not([type=range]),select,textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});

setInterval(() => { if (!document.hidden && store.picture) charts.draw(), glance(store), player.show(); }, 1000);
// A page that nobody sees lets its connection go after a while: a browser has few of them for all its tabs. What it missed it is told later.
let rest = 0, rested = false;
document.addEventListener("visibilitychange", () => {
  clearTimeout(rest);
  if (document.hidden && !store.hello?.past) rest = setTimeout(() => { rested = true; feed.stop(); }, REST_MS);
  if (document.hidden) return;
  if (rested) feed.start();
  rested = false;
  wake();
});
legend();
if (token()) feed.start();
else linked("token", "");
window.holdfast = { store, graph, charts };  // for whoever looks under the bonnet, and for measurements
