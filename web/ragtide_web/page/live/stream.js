// One connection for all tabs of a browser that show the same: HTTP/1.1 allows six to a service, and each tab needs some.
// The tab that holds the lock has the connection and hands its events on; when it closes or is hidden, another takes over.
// @ts-check

/** @typedef {{ patch: (patches: Record<string, any>) => void, changed: () => void, state: (state: string) => void }} Listener */

const BEAT_MS = 5000; // a tab with the connection says so this often
const SILENT_MS = 16000; // a tab that hears nothing for this long makes a connection of its own
const AGAIN_MS = 2000; // after the service refused the connection
const LOADING_MS = 15000; // longest time from the rendering of a page to its first event

/**
 * Listens until the returned function is called.
 * @param {string} address of the events
 * @param {string} viewer tabs of different users share nothing
 * @param {Listener} listener
 * @returns {() => void}
 */
export function listen(address, viewer, listener) {
  const stopping = new AbortController();
  if (!navigator.locks || !window.BroadcastChannel) { // an old browser, or no HTTPS
    connect(address, listener, stopping.signal);
    return () => stopping.abort();
  }
  const name = `ragtide ${viewer} ${address}`;
  const channel = new BroadcastChannel(name);
  const id = `${Math.random()}`;
  let leads = false;
  let alone = false; // this tab has a connection of its own, because the other one says nothing
  let heard = performance.now();
  let state = "";
  let lastChange = -LOADING_MS;
  /** @type {Record<string, any>} */
  let numbers = {}; // the newest of all, for tabs that come later

  /** @type {Listener} */
  const leader = {
    patch(patches) {
      numbers = { ...numbers, ...patches };
      channel.postMessage({ kind: "patch", patches });
      listener.patch(patches);
    },
    changed() {
      lastChange = performance.now();
      channel.postMessage({ kind: "changed" });
      listener.changed();
    },
    state(now) {
      state = now;
      channel.postMessage({ kind: "state", state });
      listener.state(now);
    },
  };

  channel.addEventListener("message", ({ data }) => {
    if (data.kind === "hello") {
      const changed = performance.now() - lastChange < LOADING_MS;
      if (leads && state) channel.postMessage({ kind: "welcome", to: data.from, state, numbers, changed });
      return;
    }
    if (leads || alone) return;
    heard = performance.now();
    if (data.kind === "state") listener.state(data.state);
    else if (data.kind === "changed") listener.changed();
    else if (data.kind === "patch") listener.patch(data.patches);
    else if (data.kind === "welcome" && data.to === id) {
      listener.state(data.state);
      listener.patch(data.numbers);
      // This page was rendered before it listened: it may have missed the change.
      if (data.changed) listener.changed();
    }
  });

  const beat = setInterval(() => {
    if (leads && state) channel.postMessage({ kind: "state", state });
    else if (!leads && !alone && performance.now() - heard > SILENT_MS) {
      alone = true;
      listener.changed();
      connect(address, listener, stopping.signal);
    }
  }, BEAT_MS);

  const lead = () => {
    if (stopping.signal.aborted) return undefined;
    if (alone) return undefined; // it keeps the connection that it has
    leads = true;
    if (heard > begun) listener.changed(); // the connection was away for a moment
    connect(address, leader, stopping.signal);
    return new Promise((done) => stopping.signal.addEventListener("abort", () => done(undefined)));
  };
  const begun = heard;
  navigator.locks.request(name, { signal: stopping.signal }, lead).catch(() => {}); // given up: this tab is hidden
  channel.postMessage({ kind: "hello", from: id });
  stopping.signal.addEventListener("abort", () => {
    clearInterval(beat);
    channel.close();
  });
  return () => stopping.abort();
}

/** @param {string} address @param {Listener} listener @param {AbortSignal} stopping */
function connect(address, listener, stopping) {
  const source = new EventSource(address);
  let before = false;
  source.addEventListener("open", () => {
    listener.state("live");
    if (before) listener.changed();
    before = true;
  });
  source.addEventListener("error", () => {
    if (stopping.aborted) return;
    listener.state("lost");
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(() => stopping.aborted || connect(address, listener, stopping), AGAIN_MS);
      listener.changed(); // the page leads to the login if the login has ended
    }
  });
  source.addEventListener("patch", (event) => listener.patch(JSON.parse(event.data)));
  source.addEventListener("changed", () => listener.changed());
  source.addEventListener("status", (event) => {
    const status = JSON.parse(event.data);
    listener.state(status === "ok" ? "live" : status);
  });
  stopping.addEventListener("abort", () => source.close());
}
