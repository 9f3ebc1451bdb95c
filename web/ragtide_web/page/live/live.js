// Keeps an open page up to date. The server renders every screen whole; this module changes numbers in place.
// @ts-check

/** @typedef {string | number | null} Part */

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const connection = document.getElementById("connection");
const root = document.body.dataset.root ?? ""; // path of the service below its site
const PAUSE_MS = 1000; // between two fetches of the same page

/** @type {Map<string, Element>} */
let places = new Map();

/** Remembers where each number is, so that an update looks nothing up in the document. */
function index() {
  places = new Map();
  for (const place of main.querySelectorAll("[data-key]")) {
    places.set(/** @type {HTMLElement} */ (place).dataset.key ?? "", place);
  }
}

/** @param {string} state */
function say(state) {
  if (!connection || connection.dataset.state === state) return;
  connection.dataset.state = state;
  connection.textContent = document.body.dataset[state] ?? state;
}

/** @param {Element | null} element @param {string} text */
function write(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

/** @type {Record<string, (place: HTMLElement, parts: Part[]) => void>} */
const kinds = {
  /** An estimate: number, ends (empty without an interval), three positions, state. */
  cell(place, [value, ends, low, mid, high, state]) {
    write(place.firstElementChild, String(value));
    const last = /** @type {HTMLElement} */ (place.lastElementChild);
    write(last, String(ends) || (last.dataset.none ?? ""));
    const drawing = place.children[1];
    const span = drawing.children[1];
    const middle = drawing.lastElementChild;
    span.setAttribute("x1", String(low));
    span.setAttribute("x2", String(high));
    middle?.setAttribute("x", String(Number(mid) - 1.6));
    if (place.dataset.state !== state) place.dataset.state = String(state);
  },
  /** A pipeline: its state has a region of its own, so only n changes. */
  row(place, [, n]) {
    write(place.children[2], String(n));
  },
};

/** Keys of numbers for which the page was fetched again. @type {Set<string>} */
const sought = new Set();

/** @param {Record<string, Part[]>} patches */
function apply(patches) {
  const began = performance.now();
  let older = false; // the page was rendered before a number had a place
  for (const [key, parts] of Object.entries(patches)) {
    const place = /** @type {HTMLElement | undefined} */ (places.get(key));
    if (place) kinds[place.dataset.kind ?? ""]?.(place, parts);
    else if (!sought.has(key)) {
      sought.add(key);
      older = true;
    }
  }
  performance.measure("ragtide-update", { start: began, end: performance.now() });
  if (older) refresh();
}

let fetching = false;
let wanted = false;
let lastFetch = 0;

/** Fetches this page again and replaces the regions that differ; a hidden tab waits until it is shown. */
async function refresh() {
  if (!stop) return;
  wanted = true;
  if (fetching) return;
  fetching = true;
  try {
    while (wanted) {
      const wait = lastFetch + PAUSE_MS - performance.now();
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
      wanted = false;
      if (!stop) return; // hidden while it waited
      lastFetch = performance.now();
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.redirected && new URL(answer.url).pathname === `${root}/login`) location.assign(answer.url);
      if (answer.ok && stop) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
  } catch {
    // The connection is away; the event source says so and comes back by itself.
  } finally {
    fetching = false;
  }
}

/** @param {Document} fresh */
function replace(fresh) {
  localTimes(fresh);
  for (const region of main.querySelectorAll("[data-region]")) {
    const next = fresh.getElementById(region.id);
    if (!next || next.innerHTML === region.innerHTML || busy(region)) continue;
    const open = new Set([...region.querySelectorAll("details[open]")].map((one) => one.id));
    const focused = region.contains(document.activeElement) ? document.activeElement?.id : "";
    region.replaceChildren(...next.childNodes);
    for (const one of region.querySelectorAll("details")) if (one.id && open.has(one.id)) one.open = true;
    if (focused) document.getElementById(focused)?.focus();
    region.dispatchEvent(new CustomEvent("ragtide:replaced", { bubbles: true }));
  }
  document.title = fresh.title;
  index();
}

/** A region with a form that the user fills in stays as it is. @param {Element} region */
function busy(region) {
  const active = document.activeElement;
  return active !== null && region.contains(active) && active.matches("input:not([type=hidden]), select, textarea");
}

/** Shows times in the viewer's time zone; the exact time in UTC is the title. @param {Document | Element} within */
function localTimes(within) {
  const language = document.documentElement.lang;
  const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const date = new Intl.DateTimeFormat(language, {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
  });
  const today = new Date().toDateString();
  for (const time of within.querySelectorAll("time[datetime]:not([title])")) {
    const at = new Date(time.getAttribute("datetime") ?? "");
    if (Number.isNaN(at.valueOf())) continue;
    time.setAttribute("title", time.textContent ?? "");
    time.textContent = (at.toDateString() === today ? clock : date).format(at);
  }
}

// With the version of this file, so that both are of the same release.
const { listen } = await import(`./stream.js${new URL(import.meta.url).search}`);

/** @type {(() => void) | undefined} */
let stop;

function connect() {
  const asked = new URLSearchParams(main.dataset.query ?? (main.dataset.view ? location.search : ""));
  asked.set("follow", main.dataset.follow ?? "");
  if (main.dataset.view) asked.set("view", main.dataset.view);
  stop = listen(`${root}/live?${asked}`, document.body.dataset.viewer ?? "", { patch: apply, changed: refresh, state: say });
}

/** The page is shown again: it missed what changed meanwhile. */
function resume() {
  if (stop) return;
  connect();
  refresh();
}

function disconnect() {
  stop?.();
  stop = undefined;
}

index();
localTimes(document);
if (main.dataset.follow !== undefined) {
  say("connecting");
  connect();
  // A hidden tab costs nothing; when it is shown again, it is fetched again.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) disconnect();
    else resume();
  });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) resume();
  });
}
