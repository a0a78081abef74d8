// Charts, live updates, confirmations and keys. Everything works without it, except that pages do not refresh themselves.
(() => {
  "use strict";
  const root = document.body.dataset.root;
  const connection = document.getElementById("connection");
  const find = (selector, within = document) => within.querySelector(selector);
  const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Charts

  const charts = new Map();
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const tones = {
    succeeded: ["--ok", []], failed: ["--fail", [6, 3]], retried: ["--wait", [2, 3]],
    p50: ["--run", []], p95: ["--wait", [6, 3]], p99: ["--fail", [2, 3]],
  };

  function seconds(value) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0";
    if (value < 0.001) return Math.round(value * 1e6) + " µs";
    if (value < 1) return Number((value * 1000).toPrecision(3)) + " ms";
    return Number(value.toPrecision(3)) + " s";
  }

  function clock(at, all) {
    const zone = { timeZone: "UTC" }; // as everywhere on the pages
    const day = { ...zone, day: "numeric", month: "short" }, time = { ...zone, hour: "2-digit", minute: "2-digit", hour12: false };
    const isLong = all[all.length - 1] - all[0] > 2 * 86400;
    return new Date(at * 1000).toLocaleString("en-GB", isLong ? day : time);
  }

  function drawChart(place) {
    const told = JSON.parse(place.dataset.chart);
    const show = told.unit === "s" ? seconds : (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 }));
    const axis = { stroke: style("--muted"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    charts.get(place.id)?.destroy();
    place.replaceChildren();
    const chart = new uPlot({
      width: Math.max(200, place.clientWidth), height: 180, tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      cursor: { y: false, points: { size: 6 } },
      legend: { markers: { width: 3, fill: () => "transparent", dash: (_, i) => ["", "solid", "dashed", "dotted"][told.series[i - 1] ? { 0: 1, 6: 2, 2: 3 }[tones[told.series[i - 1].tone][1][0] || 0] : 1] } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, space: 64, size: 28, values: (_, ticks) => ticks.map((at) => clock(at, told.x)) }, { ...axis, size: 58, values: (_, ticks) => ticks.map(show) }],
      series: [
        { label: " ", value: (_, at) => (at === null ? "" : clock(at, told.x)) },
        ...told.series.map((line) => {
          const [tone, dash] = tones[line.tone];
          return { label: line.label, stroke: style(tone), dash, width: 1.75, points: { show: false }, spanGaps: false, fill: line.tone === "succeeded" ? style("--ok-soft") : undefined, value: (_, value) => (value === null || value === undefined ? "" : show(value)) };
        }),
      ],
    }, [told.x, ...told.series.map((line) => line.y)], place);
    charts.set(place.id, chart);
  }

  const drawAll = () => findAll("[data-chart]").forEach(drawChart);
  let resizing;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawAll, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  // Themes

  find("[data-theme-switch]")?.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("stem-theme", next);
    drawAll();
  });

  // The store

  function showProblem(sentence) {
    connection.textContent = sentence + " This page refreshes by itself when it is back.";
    connection.hidden = false;
  }
  const clearProblem = () => { connection.hidden = true; };
  // At most once a second, and always once after the last change: htmx's own throttle forgets what comes too soon.
  let refreshing, refreshedAt = -Infinity;
  function refresh() {
    refreshing ??= setTimeout(() => {
      refreshing = undefined;
      refreshedAt = performance.now();
      if (!document.hidden && window.htmx) htmx.trigger(document.body, "stemChanged");
    }, Math.max(0, refreshedAt + 1000 - performance.now()));
  }
  document.addEventListener("visibilitychange", refresh);

  const events = find("[data-events]");
  let isPaused = false;
  let held = "";

  function addRows(html) {
    if (isPaused) { held = html + held; held = held.slice(0, 400000); countHeld(); return; }
    find("[data-events-empty]")?.remove();
    events.insertAdjacentHTML("afterbegin", html);
    findAll("tr", events).slice(300).forEach((row) => row.remove());
  }
  function countHeld() {
    const place = find("[data-events-count]");
    if (place) place.textContent = held ? (held.match(/<tr>/g) || []).length + " new" : "";
  }
  find("[data-events-pause]")?.addEventListener("click", (click) => {
    isPaused = !isPaused;
    click.target.setAttribute("aria-pressed", String(isPaused));
    click.target.textContent = isPaused ? "Go on" : "Pause";
    if (!isPaused) { const html = held; held = ""; if (html) addRows(html); countHeld(); }
  });

  if (find("[data-live-part]") || events) {
    const query = events ? "?events=1&" + new URLSearchParams(location.search) : "";
    const source = new EventSource(root + "/live" + query);
    const dot = find("[data-live]");
    source.addEventListener("ready", () => { dot.hidden = false; refresh(); });
    source.addEventListener("error", () => { dot.hidden = true; });
    source.addEventListener("changed", refresh);
    source.addEventListener("lost", (message) => showProblem(message.data));
    source.addEventListener("back", () => { clearProblem(); dot.hidden = false; refresh(); });
    if (events) source.addEventListener("rows", (message) => addRows(message.data));
    addEventListener("pagehide", () => source.close());
  }

  // htmx

  // A part that refreshes itself must not throw the keyboard back to the start of the page.
  let restoreFocus = () => {};
  function keepFocus(part, focused) {
    const nameOf = (item) => [item.tagName, item.form?.action, item.getAttribute("aria-label") ?? item.getAttribute("href") ?? item.textContent].join(" ");
    const alike = (name) => findAll(focused.tagName, part).filter((item) => nameOf(item) === name);
    const name = nameOf(focused), place = alike(name).indexOf(focused);
    restoreFocus = () => { restoreFocus = () => {}; alike(name)[place]?.focus({ preventScroll: true }); };
  }

  document.addEventListener("htmx:beforeSwap", (swap) => {
    const part = swap.detail.target;
    if (!part.hasAttribute("data-live-part")) return;
    const focused = document.activeElement;
    const isTyping = part.contains(focused) && focused.matches("input, textarea, select");
    if (isTyping || find("dialog[open]") || swap.detail.xhr.status >= 400) swap.detail.shouldSwap = false;
    else if (part.contains(focused)) keepFocus(part, focused);
  });
  document.addEventListener("htmx:afterSwap", () => { drawAll(); restoreFocus(); });
  document.addEventListener("htmx:afterRequest", (done) => { if (done.detail.successful) clearProblem(); });
  document.addEventListener("htmx:sendError", () => showProblem("The dashboard does not answer."));
  document.addEventListener("htmx:responseError", (failed) => {
    if (failed.detail.xhr.status >= 500) showProblem(failed.detail.xhr.responseText.slice(0, 500));
  });

  const dialog = document.getElementById("confirm");
  document.addEventListener("htmx:confirm", (asked) => {
    const sentence = asked.detail.elt.dataset?.confirm;
    if (!sentence) return;
    asked.preventDefault();
    find("#confirm-text").textContent = sentence;
    dialog.returnValue = "no";
    dialog.addEventListener("close", () => {
      if (dialog.returnValue !== "yes") return;
      const form = asked.detail.elt;
      let field = find("input[name=confirmed]", form);
      if (!field) { field = document.createElement("input"); field.type = "hidden"; field.name = "confirmed"; form.append(field); }
      field.value = "yes";
      asked.detail.issueRequest(true);
    }, { once: true });
    dialog.showModal();
  });

  // g and a letter leads to a page, / to the search.

  let isGoing = false;
  addEventListener("keydown", (press) => {
    if (press.ctrlKey || press.metaKey || press.altKey || press.target.matches("input, textarea, select")) return;
    if (isGoing) {
      isGoing = false;
      findAll("nav [data-key]").find((link) => link.dataset.key === press.key)?.click();
    } else if (press.key === "g") {
      isGoing = true;
      setTimeout(() => { isGoing = false; }, 1200);
    } else if (press.key === "/") {
      const field = find(".filters input");
      if (field) { press.preventDefault(); field.focus(); }
    }
  });

  // scrollIntoView would move the point from which Tab starts, past the skip link; scrolling the bar itself does not.
  function centreCurrent() {
    const bar = find("nav"), link = find("nav [aria-current]")?.getBoundingClientRect();
    if (link) bar.scrollLeft += link.x + link.width / 2 - bar.getBoundingClientRect().x - bar.clientWidth / 2;
  }

  centreCurrent();
  drawAll();
})();
