// Tables: ten rows, and more on demand. Long ones are sorted by a click on a column's name, and filtered by typed text.
// Aggregated rows stay below.

const SHOWN = 10;

function sortable(table, fold) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    const button = element("button", { type: "button", className: "sort", textContent: head.textContent });
    button.addEventListener("click", () => {
      const isDown = head.ariaSort ? head.ariaSort === "ascending" : head.classList.contains("n");
      heads.forEach((other) => (other.ariaSort = null));
      head.ariaSort = isDown ? "descending" : "ascending";
      body.append(...sorted([...body.rows], at, isDown));
      fold(false);
    });
    head.replaceChildren(button);
  });
}

/** The number of a cell: in `data-v`, or as its text. Null if there is none. */
function numberIn({ dataset, textContent }) {
  const number = dataset.v === "" ? parseFloat(textContent.replaceAll(",", "")) : Number(dataset.v);
  return Number.isNaN(number) ? null : number;
}

/** Rows by a column. Missing values come last in both directions. */
function sorted(rows, at, isDown) {
  const value = (row) => {
    const cell = row.cells[at];
    return cell.dataset.v === undefined ? cell.textContent : numberIn(cell);
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  return rows
    .map((row) => ({ row, isRest: row.classList.contains("rest"), value: value(row) }))
    .sort((a, b) => {
      if (a.isRest !== b.isRest) return a.isRest - b.isRest;
      if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
      return isDown ? compare(b.value, a.value) : compare(a.value, b.value);
    })
    .map(({ row }) => row);
}

function filterable(table, fold) {
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  const [share, samples] = [heads.indexOf("share"), heads.indexOf("samples")];
  const output = element("output", { ariaLive: "polite" });
  const input = element("input", { type: "search", placeholder: "filter rows", ariaLabel: `filter ${table.caption.textContent}` });
  const sum = (matching, at) => matching.reduce((total, row) => total + (numberIn(row.cells[at]) ?? 0), 0);
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    const matching = rows.filter((row) => {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      return !row.hidden;
    });
    fold(wanted !== "");
    const words = [`${matching.length} of ${rows.length} rows`];
    if (samples >= 0) words.push(`${measured(sum(matching, samples))} samples`);
    if (share >= 0) words.push(percent(sum(matching, share)));
    output.textContent = wanted ? words.join(", ") : "";
  });
  table.parentElement.before(element("div", { className: "tools" }, input, output));
}

/** Shows the first rows, and more on demand. A filter looks at all. */
function foldable(table) {
  const body = table.tBodies[0];
  if (body.rows.length <= SHOWN + 2) return () => {};
  let isFolded = true;
  const button = element("button", { type: "button", className: "fold" });
  const fold = (isFiltered) => {
    [...body.rows].forEach((row, at) => row.classList.toggle("folded", isFolded && !isFiltered && at >= SHOWN));
    button.textContent = isFolded ? `${body.rows.length - SHOWN} more` : "fewer";
  };
  button.addEventListener("click", () => {
    isFolded = !isFolded;
    fold(false);
  });
  table.parentElement.after(button);
  fold(false);
  return fold;
}

/** Names cells by their columns, for narrow windows. */
function named(table) {
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  table.classList.add("cards-of");
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, at) => (cell.dataset.label = heads[at]));
}

/** Tables of columns in the page's data: those that say in numbers what a drawing shows. */
for (const place of document.querySelectorAll("[data-table]")) {
  const { caption, columns } = DATA.tables[place.dataset.table];
  const words = columns.map(({ words, at }) => (at ? at.map((index) => words[index]) : words));
  const head = element("tr", {}, ...columns.map(({ name, is_number }) => element("th", { scope: "col", className: is_number ? "n" : "", textContent: name })));
  const cell = ({ links, is_number, is_name }, text) => {
    const link = links?.[text];
    const content = link ? element("a", { className: "text", href: `#${link}`, textContent: text }) : text;
    const made = element(is_name ? "th" : "td", is_name ? { scope: "row" } : {}, content);
    if (is_number) made.dataset.v = "";
    return made;
  };
  const rows = words[0].map((_, row) => element("tr", {}, ...columns.map((column, at) => cell(column, words[at][row]))));
  const table = element("table", {}, element("caption", { textContent: caption }), element("thead", {}, head), element("tbody", {}, ...rows));
  place.replaceChildren(table);
}

/** The style cuts long names: the complete name is their tooltip. */
for (const name of document.querySelectorAll(".name .text:not([title])")) {
  if (name.textContent.length > 80) name.title = name.textContent;
}

for (const table of document.querySelectorAll("main table")) {
  if (table.closest(".code-of")) continue;
  named(table);
  const fold = foldable(table);
  if (!table.classList.contains("long")) continue;
  if (table.tBodies[0].rows.length > 8) filterable(table, fold);
  sortable(table, fold);
}
