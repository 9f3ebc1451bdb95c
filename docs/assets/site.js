// The theme puts each button for copying into a landmark of its own, without a name.
const names = () =>
  document.querySelectorAll(".md-code__nav").forEach((nav, number) => {
    nav.setAttribute("aria-label", `Code ${number + 1}`);
  });
new MutationObserver(names).observe(document, { childList: true, subtree: true });
names();
