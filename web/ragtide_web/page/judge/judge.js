// Shows the time and the dollars of the bar under the pointer, from the table beneath the chart.
// @ts-check

/** Where the pointer is; an update replaces the charts beneath a pointer that rests. */
let pointer = { x: -1, y: -1 };

document.addEventListener("pointermove", (event) => {
  pointer = { x: event.clientX, y: event.clientY };
  show();
});
document.addEventListener("ragtide:replaced", show);

function show() {
  const chart = document.elementFromPoint(pointer.x, pointer.y)?.closest("figure.spend > svg");
  for (const one of document.querySelectorAll("figure.spend output")) {
    const figure = /** @type {Element} */ (one.closest("figure"));
    one.textContent = chart?.parentElement === figure ? text(figure, pointer.x) : "";
  }
}

/** @param {Element} figure @param {number} x @returns {string} */
function text(figure, x) {
  const box = /** @type {Element} */ (figure.querySelector("svg")).getBoundingClientRect();
  const rows = [...figure.querySelectorAll("tbody tr")].reverse(); // the table begins with the newest
  const place = Math.min(Math.max(Math.floor(((x - box.left) / box.width) * rows.length), 0), rows.length - 1);
  const [at, dollars] = [...(rows[place]?.children ?? [])].map((cell) => cell.textContent?.trim() ?? "");
  return `${at}: ${dollars}`;
}
