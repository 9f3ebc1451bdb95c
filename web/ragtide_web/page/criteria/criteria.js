// Checks the form of a criterion while it is written; the server has the checks.
// @ts-check

const form = /** @type {HTMLFormElement | null} */ (document.getElementById("criterion-form"));
const place = document.getElementById("check");
const PAUSE_MS = 500; // after the last key

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let asked = 0;

/** Fields that the choice of the scale does not use are hidden. */
function show() {
  const scale = /** @type {HTMLSelectElement | null | undefined} */ (form?.querySelector("[name=scale]"));
  const values = document.getElementById("own-values");
  if (values && scale) values.hidden = scale.value !== "values";
}

/** The problem of a check stands beside its field; a screen reader hears it from the place of the check. */
function showProblem() {
  const found = /** @type {HTMLElement | null | undefined} */ (place?.querySelector("[data-field]"));
  for (const slot of form?.querySelectorAll("[data-problem]") ?? []) {
    const problem = /** @type {HTMLElement} */ (slot);
    const isWrong = Boolean(found) && problem.dataset.problem === found?.dataset.field;
    problem.hidden = !isWrong;
    problem.textContent = isWrong ? found?.textContent ?? "" : "";
    for (const field of form?.querySelectorAll(`[aria-describedby~="${problem.id}"]`) ?? [])
      isWrong ? field.setAttribute("aria-invalid", "true") : field.removeAttribute("aria-invalid");
  }
}

async function check() {
  if (!form || !place) return;
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) fields.set(name, String(value));
  if (!fields.get("name") || (!fields.get("question") && !fields.get("name")?.includes("."))) return;
  const number = ++asked;
  try {
    const answer = await fetch(form.dataset.check ?? "", { method: "POST", body: fields, headers: { Accept: "text/html" } });
    if (!answer.ok || answer.redirected || number !== asked) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...fresh.body.childNodes);
    showProblem();
  } catch {
    // The service is away; the button still works when it is back.
  }
}

form?.addEventListener("input", () => {
  show();
  clearTimeout(timer);
  timer = setTimeout(check, PAUSE_MS);
});
show();
