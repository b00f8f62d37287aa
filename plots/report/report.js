// Filters and sortable tables of the report. The page is complete without it; nothing is fetched. What is chosen stands in the
// address behind "#SECTION?", so a view can be kept and shared: #cells?link=shm&sort=cells.3.desc
(() => {
  "use strict";
  const FIELDS = ["link", "traffic", "method", "status"];
  const UNITS = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1048576, GiB: 1073741824,
                  "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, "%": 0.01, "×": 1 };

  // "1,234", "−0.5", "43×", "1.9 ms" as a number; NaN for everything else.
  const numberIn = (text) => {
    const match = /^([-+−]?[\d.,]+(?:e[-+]?\d+)?)\s*(\S*)/.exec(text);
    if (!match) return NaN;
    const value = Number(match[1].replace(/,/g, "").replace("−", "-"));
    return value * (UNITS[match[2]] ?? 1);
  };

  const tables = [...document.querySelectorAll("main table")].filter((t) => t.tHead && t.tBodies.length).map((element, index) => {
    const section = element.closest("section");
    const name = (section ? section.id : "t") + (section && [...section.querySelectorAll("table")].indexOf(element) || "");
    const headers = [...element.tHead.rows[0].cells];
    const labels = headers.map((th) => th.textContent.trim().toLowerCase());
    const rows = [...element.tBodies[0].rows].map((row) => ({ row, texts: [...row.cells].map((cell) => cell.textContent.trim()) }));
    const count = document.createElement("p");
    count.className = "count";
    count.hidden = true;
    element.parentElement.before(count);
    return { element, index, name, section, headers, labels, rows, count,
             columns: Object.fromEntries(FIELDS.map((field) => [field, labels.indexOf(field)])) };
  });
  const filtered = tables.filter((table) => FIELDS.some((field) => table.columns[field] >= 0));

  const state = { q: "", sort: "" };
  for (const field of FIELDS) state[field] = "";

  // ---- the bar ----
  const bar = document.createElement("form");
  bar.className = "filters";
  bar.setAttribute("role", "search");
  bar.setAttribute("aria-label", "Filter the tables");
  const inputs = {};
  const add = (label, input, key) => {
    const box = document.createElement("label");
    box.append(label + " ", input);
    bar.append(box);
    inputs[key] = input;
  };
  for (const field of FIELDS) {
    const values = new Set();
    for (const table of filtered) {
      const column = table.columns[field];
      if (column >= 0) for (const { texts } of table.rows) if (texts[column]) values.add(texts[column]);
    }
    if (values.size < 2) continue;
    const select = document.createElement("select");
    select.append(new Option("all", ""));
    for (const value of [...values].sort((a, b) => a.localeCompare(b, "en", { numeric: true }))) select.append(new Option(value, value));
    select.addEventListener("change", () => { state[field] = select.value; apply(); keep(); });
    add(field, select, field);
  }
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "any text";
  search.addEventListener("input", () => { state.q = search.value; apply(); keep(); });
  add("contains", search, "q");
  const reset = document.createElement("button");
  reset.type = "button";
  reset.textContent = "Show all";
  reset.addEventListener("click", () => { for (const key of Object.keys(state)) state[key] = ""; apply(); keep(); });
  const said = document.createElement("output");
  said.setAttribute("aria-live", "polite");
  bar.append(reset, said);
  bar.addEventListener("submit", (event) => event.preventDefault());
  // Below the answer, and in sight from there on.
  if (filtered.length) (document.getElementById("answer") || document.querySelector("main .lead")).after(bar);

  // ---- sorting ----
  for (const table of tables) {
    if (table.rows.length < 2) continue;
    table.headers.forEach((th, column) => {
      if (!th.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...th.childNodes);
      button.title = "Sort by this column";
      th.append(button);
      button.addEventListener("click", () => {
        const now = th.getAttribute("aria-sort");
        state.sort = now === "descending" ? "" : `${table.name}.${column}.${now === "ascending" ? "desc" : "asc"}`;
        apply();
        keep();
      });
    });
  }

  const sortTable = (table, column, direction) => {
    const keys = table.rows.map(({ texts }) => texts[column] ?? "");
    const missing = (text) => text === "" || text === "n/a" || text === "none" || text === "–";
    const numbers = keys.map(numberIn);
    const numeric = keys.every((key, i) => missing(key) || !Number.isNaN(numbers[i]));
    const order = table.rows.map((_, i) => i).sort((a, b) => {
      if (missing(keys[a]) !== missing(keys[b])) return missing(keys[a]) ? 1 : -1;  // what is not there stays last
      const by = numeric ? numbers[a] - numbers[b] : keys[a].localeCompare(keys[b], "en", { numeric: true });
      return (by || 0) * direction || a - b;
    });
    table.element.tBodies[0].append(...order.map((i) => table.rows[i].row));
  };

  // ---- state to page ----
  let sorted = null;
  const apply = () => {
    const q = state.q.trim().toLowerCase();
    let shown = 0, all = 0;
    const active = q !== "" || FIELDS.some((field) => state[field] !== "");
    for (const table of filtered) {
      let here = 0;
      for (const { row, texts } of table.rows) {
        const fits = FIELDS.every((field) => state[field] === "" || table.columns[field] < 0 || texts[table.columns[field]] === state[field]) &&
                     (q === "" || texts.some((text) => text.toLowerCase().includes(q)));
        row.hidden = !fits;
        here += fits;
      }
      shown += here;
      all += table.rows.length;
      table.count.hidden = here === table.rows.length;
      table.count.textContent = here ? `${here} of ${table.rows.length} rows fit the filter` : "No row fits the filter.";
    }
    said.textContent = active ? `${shown} of ${all} rows` : "";
    reset.disabled = !active && state.sort === "";
    for (const [key, input] of Object.entries(inputs)) if (input.value !== state[key]) input.value = state[key];

    const [name, column, direction] = state.sort.split(".");
    const target = tables.find((table) => table.name === name && column in table.headers);
    if (sorted && sorted !== target) sorted.element.tBodies[0].append(...sorted.rows.map(({ row }) => row));
    for (const table of tables) for (const th of table.headers) th.removeAttribute("aria-sort");
    sorted = target || null;
    if (!target) return;
    sortTable(target, Number(column), direction === "desc" ? -1 : 1);
    target.headers[column].setAttribute("aria-sort", direction === "desc" ? "descending" : "ascending");
  };

  // ---- state to address and back ----
  let section = "";
  const address = () => {
    const chosen = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== ""));
    return "#" + section + ([...chosen].length ? "?" + chosen : "");
  };
  const keep = () => {
    try {
      history.replaceState(null, "", address());
    } catch {
      // some browsers refuse this for files; the view still changes
    }
  };
  const open = () => {
    const place = section && document.getElementById(section);
    if (!place) return;
    for (let box = place.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    const box = place.parentElement.closest("section") && place.querySelector(":scope > details");
    if (box) box.open = true;
    place.scrollIntoView({ behavior: "instant" });
  };
  const read = () => {
    const [anchor, query] = location.hash.slice(1).split("?");
    try {
      section = decodeURIComponent(anchor);
    } catch {
      section = "";
    }
    if (query === undefined) {
      keep();  // a link inside the page: the filter stays
    } else {
      const chosen = new URLSearchParams(query);
      for (const key of Object.keys(state)) state[key] = chosen.get(key) ?? "";
      apply();
    }
    open();
  };
  addEventListener("hashchange", read);
  apply();
  if (location.hash) read();
})();
