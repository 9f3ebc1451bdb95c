// Keys and hover of an item: j and k go through its list; 1 to 5 rate it, u undoes; a sentence lights those that support it.
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

/** Sends the opinion of a key. @param {string} key */
function opine(key) {
  const form = document.getElementById("opinion-form");
  if (!(form instanceof HTMLFormElement)) return;
  const radio = form.querySelector(`input[type=radio][value="${CSS.escape(key)}"]`);
  if (radio instanceof HTMLInputElement) radio.checked = true;
  const button = form.querySelector(radio ? "button[name=save]" : key === "u" ? "button[name=undo]" : ":not(*)");
  if (button instanceof HTMLButtonElement) form.requestSubmit(button);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.matches("input:not([type=radio]), select, textarea");
  if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
  const rel = event.key === "j" ? "next" : event.key === "k" ? "prev" : null;
  const link = rel === null ? null : document.querySelector(`.around a[rel=${rel}]`);
  if (link instanceof HTMLAnchorElement) link.click();
  if (!event.repeat) opine(event.key);
});
