// Keys and hover of an item: j and k go through its list; a sentence lights the sentences that support it.
// @ts-check

/** @param {EventTarget | null} target */
function light(target) {
  for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  const found = target instanceof Element ? target.closest("[data-by], [data-supports]") : null;
  if (!(found instanceof HTMLElement)) return;
  const [keys, prefix] = found.dataset.by === undefined ? [found.dataset.supports, "r-"] : [found.dataset.by, "d-"];
  if (!keys) return;
  found.classList.add("lit");
  for (const key of keys.split(" ")) document.getElementById(prefix + key)?.classList.add("lit");
}

document.addEventListener("mouseover", (event) => light(event.target));
document.addEventListener("focusin", (event) => light(event.target));

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const rel = event.key === "j" ? "next" : event.key === "k" ? "prev" : null;
  const link = rel === null ? null : document.querySelector(`.around a[rel=${rel}]`);
  if (link instanceof HTMLAnchorElement) link.click();
});
