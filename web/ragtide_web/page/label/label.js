// Answers the questions about an item with keys: y and n, 1 to 5, s skips, Enter saves.
// @ts-check

const form = /** @type {HTMLFormElement | null} */ (document.getElementById("answers"));

/** The first question without an answer. @returns {HTMLElement | undefined} */
function current() {
  const all = /** @type {HTMLElement[]} */ ([...(form?.querySelectorAll("fieldset") ?? [])]);
  const found = all.find((one) => !one.querySelector("input:checked"));
  for (const one of all) one.classList.toggle("current", one === found);
  return found;
}

/** @param {KeyboardEvent} event */
function answer(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (!form || event.ctrlKey || event.metaKey || event.altKey || target.matches("select, textarea, input[type=text]")) return;
  if (event.key === "s") {
    /** @type {HTMLButtonElement | null} */ (form.querySelector("button[name=skip]"))?.click();
    return;
  }
  const choice = /** @type {HTMLInputElement | null | undefined} */ (
    current()?.querySelector(`input[value="${CSS.escape(event.key)}"]`));
  if (choice) {
    choice.checked = true;
    event.preventDefault();
    const next = current();
    if (next) next.scrollIntoView({ block: "nearest" });
    else /** @type {HTMLButtonElement | null} */ (form.querySelector("button.main"))?.focus();
  }
}

if (form) {
  current();
  form.addEventListener("change", current);
  document.addEventListener("keydown", answer);
}
