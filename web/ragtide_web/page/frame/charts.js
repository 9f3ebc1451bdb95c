// Draws the bands of a pipeline with uPlot, from the tables beneath them. Without this module the server's drawing stays.
// @ts-check

/** @typedef {[start: number, end: number, mean: number, lower: number | null, upper: number | null, n: number]} Point */

// uPlot is a classic script, so it is a global.
const uPlot = /** @type {any} */ (window).uPlot;
const LEAST_PX = 12; // a shorter drag is a click
const EDGE_S = 0.001; // between two points that touch
const DAY_S = 86400;

/** @type {Map<string, any>} */
const drawn = new Map();

/** @param {string} name */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {Element} region @returns {Point[]} */
function pointsOf(region) {
  return [...region.querySelectorAll("tr[data-point]")].map((row) => {
    const parts = (row.getAttribute("data-point") ?? "").split(",");
    return /** @type {Point} */ (parts.map((part) => (part === "" ? null : Number(part))));
  });
}

/** Columns for uPlot, the places of points without a neighbour, and the point of each place. A mean holds from the start
 * of its point to its end, so a change is a step; a gap gets an empty value, so that no line crosses it.
 * @param {Point[]} points */
function columns(points) {
  /** @type {(number | null)[][]} */
  const data = [[], [], [], [], []];
  /** @type {number[]} */
  const alone = [];
  /** @type {Point[]} */
  const owners = [];
  points.forEach((point, number) => {
    const [start, end, mean, lower, upper, n] = point;
    const add = (/** @type {number} */ at, empty = false) => {
      const row = empty ? [at, null, null, null, null] : [at, lower, upper, mean, n];
      row.forEach((value, place) => data[place].push(value));
      owners.push(point);
    };
    const begins = number === 0 || start > points[number - 1][1];
    const ends = number === points.length - 1 || points[number + 1][0] > end;
    // Two values at one time are none for uPlot.
    add(begins ? start : start + EDGE_S);
    if (begins && ends) {
      alone.push(data[0].length);
      add((start + end) / 2);
    }
    add(end);
    if (ends) add(end + EDGE_S, true);
  });
  return { data, alone, owners };
}

/** Columns for uPlot of the evidence of a rule, as decimal logarithms: time, line, nothing, evidence, values.
 * @param {Element} region */
function evidenceColumns(region) {
  /** @type {(number | null)[][]} */
  const found = [[], [], [], [], []];
  for (const row of region.querySelectorAll("tr[data-evidence-point]")) {
    const [at, onceIn, line] = (row.getAttribute("data-evidence-point") ?? "").split(",");
    const log = (/** @type {string} */ value) => value === "" ? null : Math.log10(Math.max(Number(value), 1));
    [Number(at), log(line), null, log(onceIn), onceIn === "" ? null : Math.round(Number(onceIn))]
      .forEach((value, place) => found[place].push(value));
  }
  return found;
}

/** @param {HTMLElement} chart @param {Element} region */
function marksOf(chart, region) {
  const marks = [...region.querySelectorAll("[data-mark]")].map((one) => ({
    at: Number(one.getAttribute("data-mark")), kind: one.className,
  }));
  return { marks, target: chart.dataset.target, baseline: chart.dataset.baseline };
}

/** @param {HTMLElement} chart */
function draw(chart) {
  const region = /** @type {Element} */ (chart.closest("[data-region]"));
  const evidence = "evidence" in chart.dataset;
  const points = pointsOf(region);
  const { marks, target, baseline } = marksOf(chart, region);
  const levels = (chart.dataset.levels ?? "").split(" ").filter(Boolean).map((one) => {
    const [kind, ...numbers] = one.split(",");
    const [from, to, value] = numbers.map(Number);
    return { kind, from: Math.max(from, Number(chart.dataset.start)), to: Math.min(to, Number(chart.dataset.end)), value };
  });
  const [low, high] = [Number(chart.dataset.low), Number(chart.dataset.high)];
  const [start, end] = [Number(chart.dataset.start), Number(chart.dataset.end)];
  const line = getComputedStyle(chart).color;
  const { data, alone, owners } = evidence ? { data: evidenceColumns(region), alone: [], owners: [] } : columns(points);
  const changed = chart.dataset.changed ? Number(chart.dataset.changed) : null;
  const sharpChange = (/** @type {any} */ plot) => {
    if (changed === null || changed >= end || !plot.bbox.width) return line;
    const share = Math.max((changed - start) / (end - start), 0);
    const colours = plot.ctx.createLinearGradient(plot.bbox.left, 0, plot.bbox.left + plot.bbox.width, 0);
    colours.addColorStop(share, line);
    colours.addColorStop(share, colour("--bad"));
    return colours;
  };
  const soft = colour("--soft");
  const grid = { stroke: colour("--line"), width: 1 };
  const output = region.querySelector(".at");
  const whole = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 0 });
  const short = new Intl.NumberFormat(document.documentElement.lang, { notation: "compact" });
  const clock = new Intl.DateTimeFormat(document.documentElement.lang, end - start < DAY_S ? SECONDS : DAY_MINUTES);

  /** @param {any} plot @param {number} value @param {string} stroke @param {number[]} dash */
  function level(plot, value, stroke, dash) {
    const y = Math.round(plot.valToPos(value, "y", true)) + 0.5;
    stroked(plot, stroke, dash, plot.bbox.left, y, plot.bbox.left + plot.bbox.width, y);
  }

  /** @param {any} plot @param {string} stroke @param {number[]} dash @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {number} [width] */
  function stroked(plot, stroke, dash, x1, y1, x2, y2, width = 1) {
    const context = plot.ctx;
    context.save();
    context.strokeStyle = stroke;
    context.lineWidth = width * devicePixelRatio;
    context.setLineDash(dash.map((part) => part * devicePixelRatio));
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    context.restore();
  }

  const options = {
    width: chart.clientWidth,
    height: chart.clientHeight,
    legend: { show: false },
    scales: { x: { range: [start, end] }, y: { range: [low, high] } },
    cursor: { drag: { x: !evidence, y: false, setScale: false }, points: { size: 7 } },
    axes: [
      { stroke: soft, grid, ticks: grid, font: "11px system-ui, sans-serif", size: 26,
        space: end - start > DAY_S && end - start < 8 * DAY_S ? 104 : 64,
        values: (/** @type {any} */ _, /** @type {number[]} */ at, /** @type {number} */ __, /** @type {number} */ ___,
          /** @type {number} */ step) => timeLabels(at, step, end - start) },
      { stroke: soft, grid, ticks: { show: false }, font: "11px system-ui, sans-serif", size: 44,
        ...(evidence ? { splits: wholeNumbers } : {}),
        values: (/** @type {any} */ _, /** @type {number[]} */ values, /** @type {number} */ __, /** @type {number} */ ___,
          /** @type {number} */ step) => unique(values.map((value) => evidence ? short.format(10 ** value)
          : Math.abs(value) < 1000 ? value.toFixed(Math.max(2, Math.ceil(-Math.log10(step) - 1e-9))) : short.format(value))) },
    ],
    series: [
      {},
      { stroke: evidence ? colour("--target") : "transparent", width: 1.5, dash: [5, 4], points: { show: false } },
      { stroke: "transparent", points: { show: false } },
      { stroke: sharpChange, width: 1.6, points: { show: alone.length > 0, filter: () => alone, size: 6, fill: sharpChange } },
      { show: false },
    ],
    bands: evidence ? [] : [{ series: [2, 1], fill: `color-mix(in srgb, ${line} 22%, transparent)` }],
    hooks: {
      draw: [
        (/** @type {any} */ plot) => {
          if (baseline) level(plot, Number(baseline), colour("--grey"), [6, 4]);
          if (target) level(plot, Number(target), colour("--target"), [2, 3]);
          for (const { kind, from, to, value } of levels) {
            const [x1, x2] = [from, to].map((at) => plot.valToPos(at, "x", true));
            const y = Math.round(plot.valToPos(value, "y", true)) + 0.5;
            stroked(plot, colour(kind === "since" ? "--bad" : "--grey"), [6, 4], x1, y, x2, y, 2);
          }
          for (const mark of marks) {
            const x = Math.round(plot.valToPos(mark.at, "x", true)) + 0.5;
            const stroke = colour({ fired: "--bad", worse: "--bad", not_worse: "--good", began: "--warn" }[mark.kind] ?? "--grey");
            stroked(plot, stroke, mark.kind === "began" ? [3, 3] : [], x, plot.bbox.top, x, plot.bbox.top + plot.bbox.height);
          }
        },
      ],
      setCursor: [
        (/** @type {any} */ plot) => {
          const place = plot.cursor.idx;
          const mean = place === null ? null : plot.data[3][place];
          if (!output) return;
          if (evidence) {
            output.textContent = mean == null ? "\u00a0"
              : `${clock.format(plot.data[0][place] * 1000)} · 1 / ${whole.format(plot.data[4][place])}`;
            return;
          }
          const [from, until] = mean == null ? [0, 0] : owners[place];
          output.textContent = mean == null ? "\u00a0"
            : `${clock.format(from * 1000)} – ${clock.format(until * 1000)} · ${mean.toFixed(3)}`
            + (plot.data[1][place] == null ? "" : ` [${plot.data[1][place].toFixed(3)}, ${plot.data[2][place].toFixed(3)}]`)
            + ` · n ${plot.data[4][place]}`;
        },
      ],
      setSelect: [
        (/** @type {any} */ plot) => {
          if (plot.select.width < LEAST_PX) return;
          const [from, to] = [plot.select.left, plot.select.left + plot.select.width].map((x) => plot.posToVal(x, "x"));
          const address = new URL(location.href);
          address.searchParams.delete("range");
          address.searchParams.set("start", new Date(from * 1000).toISOString());
          address.searchParams.set("end", new Date(to * 1000).toISOString());
          location.assign(address);
        },
      ],
    },
  };
  const pointer = drawn.get(region.id)?.cursor;
  drawn.get(region.id)?.destroy();
  chart.replaceChildren();
  const plot = new uPlot(options, data, chart);
  if (pointer?.left >= 0) plot.setCursor({ left: pointer.left, top: pointer.top }); // it may rest there
  drawn.set(region.id, plot);
}

const SECONDS = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const MINUTES = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAYS = /** @type {const} */ ({ month: "short", day: "numeric" });
const DAY_MINUTES = /** @type {const} */ ({ ...DAYS, ...MINUTES });

/** Labels of an axis of time, as short as they can be without two that are the same.
 * @param {number[]} at @param {number} step seconds between two labels @param {number} length seconds of the axis */
function timeLabels(at, step, length) {
  const form = step < 60 ? SECONDS : step >= DAY_S ? DAYS : length > DAY_S ? DAY_MINUTES : MINUTES;
  const clock = new Intl.DateTimeFormat(document.documentElement.lang, form);
  return unique(at.map((one) => clock.format(one * 1000)));
}

/** Leaves out a label that stands there already: two of the same say that time, or the value, stands still.
 * @param {string[]} labels */
function unique(labels) {
  return labels.map((label, place) => labels.indexOf(label) === place ? label : "");
}

/** Places of the grid on a logarithmic scale: 1, 10, 100, ...
 * @param {any} _ @param {number} __ @param {number} low @param {number} high */
function wholeNumbers(_, __, low, high) {
  const step = Math.max(1, Math.ceil((high - low) / 6));
  return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_one, place) => low + place * step);
}

function drawAll() {
  for (const chart of document.querySelectorAll(".chart")) draw(/** @type {HTMLElement} */ (chart));
}

// Module scripts run after classic ones that are deferred before them.
if (uPlot) {
  drawAll();
  document.addEventListener("ragtide:replaced", (event) => {
    const chart = /** @type {Element} */ (event.target).querySelector(".chart");
    if (chart) draw(/** @type {HTMLElement} */ (chart));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawAll();
    width = innerWidth;
  });
}
