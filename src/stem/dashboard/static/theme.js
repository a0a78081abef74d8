// Before the page is drawn, so that it does not flash in the other theme.
(() => {
  const chosen = localStorage.getItem("stem-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
