// Keys of a list: j and k go to the next and the previous row.
// @ts-check

/** @param {number} step */
function go(step) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-keys] tbody a")]);
  if (links.length === 0) return;
  const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = at < 0 ? 0 : Math.min(Math.max(at + step, 0), links.length - 1);
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "j") go(1);
  else if (event.key === "k") go(-1);
});
