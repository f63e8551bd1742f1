// The box for SQL. It asks the server that sent this page. Texts of answers are never markup.
{
  const statement = document.getElementById("statement");
  const answer = document.getElementById("answer");
  const progress = statement.form.querySelector("output");
  const stop = document.getElementById("stop");
  const NOTHING = () => {};
  /** Characters of a text that may not fit. */
  const LONG = 60;
  let running = null;

  /** Runs the statement in the box. The page's address has it from now on. */
  async function run() {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    const sql = statement.value;
    history.replaceState(null, "", `#sql=${encodeURIComponent(sql)}`);
    stop.hidden = false;
    progress.textContent = "running";
    const parts = await asked(sql, mine.signal);
    // A later statement replaced this one.
    if (running !== mine) return;
    running = null;
    stop.hidden = true;
    answer.replaceChildren(...parts);
  }

  /** The elements that show a statement's answer. */
  async function asked(sql, signal) {
    try {
      const headers = { "Content-Type": "application/sql" };
      const reply = await fetch(`${location.pathname}/rows`, { method: "POST", headers, body: sql, signal });
      const found = await reply.json();
      progress.textContent = reply.ok ? summary(found) : "";
      return reply.ok ? rows(sql, found) : refusal(found);
    } catch (error) {
      progress.textContent = signal.aborted ? "stopped" : "";
      if (signal.aborted) return [];
      return refusal({ error: `the server does not answer: ${error.message}`, hint: "look at the terminal of stallmap serve" });
    }
  }

  function counted(count) {
    return `${count.toLocaleString("en-US")} ${count === 1 ? "row" : "rows"}`;
  }

  function summary({ rows, more, is_exact, duration_ns }) {
    const all = rows.length + more;
    return `${is_exact ? "" : "more than "}${counted(all)}, ${nanoseconds(duration_ns)}`;
  }

  /** An error with the place in the statement, and its hint. */
  function refusal({ error, excerpt, hint }) {
    const parts = [element("p", { textContent: `error: ${plain(error)}` })];
    if (excerpt) parts.push(element("pre", { tabIndex: 0, textContent: plain(excerpt) }));
    if (hint) parts.push(element("p", { className: "dim", textContent: `hint: ${plain(hint)}` }));
    const box = element("div", { className: "refusal" }, ...parts);
    box.setAttribute("role", "alert");
    return [box];
  }

  /** Rows as a table of the page, the number of others, and files with all. */
  function rows(sql, found) {
    if (!found.columns.length) return [element("p", { className: "dim", textContent: "(no columns)" })];
    const scroll = element("div", { className: "scroll", tabIndex: 0, ariaLabel: "Rows of the statement" }, table(found));
    scroll.setAttribute("role", "region");
    const parts = found.rows.length ? [scroll] : [element("p", { className: "dim", textContent: plain(found.absence ?? "(no rows)") })];
    const less = found.is_exact ? "" : "more than ";
    const words = found.more || !found.is_exact ? `${less}${found.more.toLocaleString("en-US")} more rows. All rows as` : "All rows as";
    const links = ["csv", "json", "parquet"].map((format) =>
      element("a", { href: `${location.pathname}/rows.${format}?sql=${encodeURIComponent(sql)}`, download: `rows.${format}`, textContent: format }),
    );
    return [...parts, element("p", { className: "dim below" }, words, ...links)];
  }

  function table({ columns, rows }) {
    const heads = columns.map(({ name, is_number }) =>
      element("th", { scope: "col", className: is_number ? "n" : "", textContent: plain(name) }),
    );
    const body = rows.map((row) => element("tr", {}, ...row.map((value, at) => cell(value, columns[at].is_number))));
    const made = element("table", { className: "long" }, element("caption", { textContent: "Rows of the statement" }));
    made.append(element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
    named(made);
    sortable(made, NOTHING);
    return made;
  }

  function cell(value, isNumber) {
    const made = element("td", { className: isNumber ? "n" : "", textContent: value === null ? "NULL" : plain(value) });
    if (value === null) made.classList.add("dim");
    // The style cuts long texts.
    else if (value.length > LONG) made.title = plain(value);
    if (isNumber) made.dataset.v = value ?? "";
    return made;
  }

  /** Fills the box. */
  function fill(sql) {
    statement.value = sql;
    statement.closest("section").scrollIntoView({ block: "start" });
    statement.focus({ preventScroll: true });
  }

  statement.form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  statement.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    run();
  });
  stop.addEventListener("click", () => running?.abort());

  // Each query of the page can be run.
  for (const figure of document.querySelectorAll("details.sql figure")) {
    const button = element("button", { type: "button", textContent: "to the box" });
    button.addEventListener("click", () => {
      fill(figure.querySelector("code").textContent);
      run();
    });
    figure.firstElementChild.append(button);
  }

  /** Views, tables and examples by kind, with their descriptions. A click fills the box. */
  async function list() {
    const pane = names.querySelector(".names");
    const [input, output] = names.querySelectorAll("input, output");
    try {
      const reply = await fetch(`${location.pathname}/names`);
      const found = await reply.json();
      if (!reply.ok) throw new Error(found.error);
      for (const { title, entries } of found) pane.append(element("h3", { textContent: title }), element("ul", {}, ...entries.map(entry)));
    } catch (error) {
      pane.append(...refusal({ error: `no names: ${error.message}` }));
    }
    const items = [...pane.querySelectorAll("li")];
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      for (const item of items) item.hidden = !item.textContent.toLowerCase().includes(wanted);
      output.textContent = wanted ? `${items.filter((item) => !item.hidden).length} of ${items.length}` : "";
    });
  }

  function entry({ name, doc, sql, columns }) {
    const button = element("button", { type: "button", textContent: plain(name) });
    button.addEventListener("click", () => fill(sql));
    const parts = [button, element("span", { textContent: plain(doc) })];
    if (columns.length) {
      const described = columns.flatMap(([column, meaning]) => [
        element("dt", { textContent: plain(column) }),
        element("dd", { textContent: plain(meaning) }),
      ]);
      const more = element("details", { className: "data" }, element("summary", { textContent: `${columns.length} columns` }));
      more.append(element("dl", {}, ...described));
      parts.push(more);
    }
    return element("li", {}, ...parts);
  }

  const names = document.getElementById("names");
  names.addEventListener("toggle", list, { once: true });

  /** Runs the statement of the page's address. */
  function reopen() {
    if (!location.hash.startsWith("#sql=")) return;
    fill(fragment().slice(4));
    run();
  }
  addEventListener("hashchange", reopen);
  reopen();
}
