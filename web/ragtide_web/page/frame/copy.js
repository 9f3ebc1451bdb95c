// Buttons that copy the text of the element that they name.
// @ts-check

/** @param {HTMLElement} element */
function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = window.getSelection();
  selection?.removeAllRanges();
  selection?.addRange(range);
}

/** @param {HTMLElement} element */
async function copy(element) {
  try {
    await navigator.clipboard.writeText(element.innerText.trim());
  } catch {
    // Without HTTPS on another machine a page has no clipboard: the older command copies the selection.
    select(element);
    document.execCommand("copy");
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
  const element = button instanceof HTMLElement && document.getElementById(button.dataset.copy ?? "");
  if (!element) return;
  await copy(element);
  const label = button.textContent;
  button.textContent = button.dataset.done ?? label;
  setTimeout(() => { button.textContent = label; }, 2000);
});

// The buttons do nothing without this script, so only it shows them.
document.documentElement.dataset.copies = "";
