// Call paths as an icicle: a click or Enter zooms, arrows move, Escape goes back, a search marks and sums names.

const ROW = 21;
const METRICS = [
  ["samples", measured],
  ["memory samples", measured],
  ["time", nanoseconds],
  ["launches", measured],
];
const LEVELS = { user: "Python", module: "module", op: "operator", kernel: "kernel" };

/** The nodes of the data, each with its children. */
function tree({ names, rows }) {
  const nodes = rows.map(([parent, level, name, costs]) => ({ parent, level, name: plain(names[name]), costs, children: [] }));
  for (const node of nodes) {
    node.parent = node.parent === null ? null : nodes[node.parent];
    node.parent?.children.push(node);
    node.depth = node.parent ? node.parent.depth + 1 : 0;
  }
  return nodes;
}

/** The names from the root to a node. */
function path(node) {
  return node.parent ? [...path(node.parent), node] : [];
}

/** SQL for a node's numbers, by the names on its path. */
function queryOf(node) {
  const steps = path(node);
  const text = (value) => `'${value.replaceAll("'", "''")}'`;
  const names = (level) => steps.filter((step) => step.level === level).map((step) => step.name);
  const where = [];
  const last = steps.at(-1)?.level;
  // Only a category followed by another one has exactly the path's length.
  const list = (column, level) => {
    const found = names(level);
    if (found[0]?.startsWith("(")) where.push(`${column} IS NULL`);
    else found.forEach((name, at) => where.push(`${column}[${at + 1}] = ${text(name)}`));
    if (found.length && last !== level && !found[0].startsWith("(")) where.push(`array_length(${column}) = ${found.length}`);
  };
  list("user_frames", "user");
  const modules = names("module");
  const isWhole = last !== "module";
  if (modules[0]?.startsWith("(")) where.push("module_path IS NULL");
  else if (modules.length && isWhole) where.push(`module_path = ${text(modules.join("."))}`);
  else if (modules.length) where.push(`starts_with(module_path || '.', ${text(`${modules.join(".")}.`)})`);
  list("ops", "op");
  names("kernel").forEach((name) => where.push(`kernel = ${text(name)}`));
  const sums = "sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(time_ns) AS time_ns, count(*) AS launches";
  return `SELECT ${sums}\nFROM call_path_cost${where.length ? `\nWHERE ${where.join("\n  AND ")}` : ""};\n`;
}

function icicle(holder, rows) {
  const nodes = tree(rows);
  const root = nodes[0];
  let metric = root.costs[0] > 0 ? 0 : root.costs[2] > 0 ? 2 : 3;
  let top = root;
  let current = root;
  let found = new Set();
  const cost = (node) => node.costs[metric];
  const note = (node, at = metric) => METRICS[at][1](node.costs[at]);
  const share = (node) => (cost(root) > 0 ? cost(node) / cost(root) : 0);

  const canvas = element("div", { className: "canvas", role: "tree", ariaLabel: "call paths" });
  const about = element("div", { className: "about", ariaLive: "polite" });
  const count = element("output");
  const search = element("input", { type: "search", placeholder: "search names", ariaLabel: "search names of call paths" });
  const choice = element("select", { ariaLabel: "metric of widths" });
  METRICS.forEach(([name], at) => {
    if (root.costs[at] > 0) choice.append(element("option", { value: at, textContent: name, selected: at === metric }));
  });
  const back = element("button", { type: "button", textContent: "reset zoom" });
  const levels = element("div", { className: "levels" });
  for (const [level, name] of Object.entries(LEVELS)) {
    if (nodes.some((node) => node.level === level)) levels.append(element("span", { className: level, textContent: name }));
  }

  function describe(node) {
    const names = path(node).map((step) => step.name);
    const words = METRICS.map(([name], at) => `${note(node, at)} ${name === "time" ? "GPU time" : name}`);
    const line = element("p", { className: "dim", textContent: `${percent(share(node))} of ${METRICS[metric][0]}: ${words.join(", ")}` });
    const query = element("pre", { tabIndex: 0 }, element("code", { textContent: queryOf(node) }));
    const caption = element("figcaption", { textContent: "These numbers" });
    caption.append(copier(() => queryOf(node)));
    const sql = element("details", { className: "sql" }, element("summary", { textContent: "SQL" }), element("figure", {}, caption, query));
    const isRest = node.level === null && node.parent;
    about.replaceChildren(element("p", { className: "code", textContent: names.join(" › ") || "all launches" }), line);
    if (!isRest) about.append(sql);
  }

  /** A node's box. */
  function box(node, left, width) {
    const room = width * canvas.clientWidth;
    // One letter of a name is useless.
    const shown = node.level === "op" ? node.name.replace(/^aten::/, "") : node.name;
    const name = room < 26 ? "" : shown + (room > 160 ? `  ${percent(share(node))}` : "");
    const made = element("div", { className: `node ${node.level ?? "rest"}`, textContent: name, title: `${node.name}\n${note(node)}, ${percent(share(node))}` });
    made.role = "treeitem";
    made.ariaLabel = `${node.name}, ${note(node)} ${METRICS[metric][0]}, ${percent(share(node))}`;
    made.ariaLevel = node.depth + 1;
    made.tabIndex = node === current ? 0 : -1;
    made.style.left = `${left * 100}%`;
    made.style.width = `${width * 100}%`;
    made.style.top = `${node.depth * ROW}px`;
    if (node.depth < top.depth) made.classList.add("above");
    if (found.has(node)) made.classList.add("found");
    if (node.costs[0] > 0) {
      const stripe = element("i");
      stripe.style.width = percent(node.costs[1] / node.costs[0]).replace(/[<> ]/g, "");
      made.append(stripe);
    }
    made.addEventListener("click", () => zoom(node));
    made.addEventListener("focus", () => describe(node));
    node.box = made;
    return made;
  }

  function draw() {
    const least = 1.5 / Math.max(canvas.clientWidth, 300);
    const boxes = [];
    let depth = 0;
    nodes.forEach((node) => (node.box = null));
    for (let above = top.parent; above; above = above.parent) boxes.push(box(above, 0, 1));
    const lay = (node, left, width) => {
      boxes.push(box(node, left, width));
      depth = Math.max(depth, node.depth);
      let place = left;
      for (const child of node.children) {
        const part = cost(node) > 0 ? (width * cost(child)) / cost(node) : 0;
        if (part >= least) lay(child, place, part);
        place += part;
      }
    };
    lay(top, 0, 1);
    canvas.replaceChildren(...boxes);
    canvas.style.height = `${(depth + 1) * ROW}px`;
  }

  function zoom(node) {
    top = node;
    current = node;
    draw();
    node.box.focus({ preventScroll: true });
    describe(node);
  }

  function walk(node) {
    if (!node?.box) return;
    current.box.tabIndex = -1;
    current = node;
    node.box.tabIndex = 0;
    node.box.focus({ preventScroll: true });
  }

  canvas.addEventListener("keydown", (event) => {
    const siblings = current.parent?.children.filter((node) => node.box) ?? [current];
    const at = siblings.indexOf(current);
    const steps = {
      ArrowDown: () => walk(current.children.find((node) => node.box)),
      ArrowUp: () => walk(current.parent),
      ArrowRight: () => walk(siblings[at + 1]),
      ArrowLeft: () => walk(siblings[at - 1]),
      Home: () => walk(top),
      Enter: () => zoom(current),
      " ": () => zoom(current),
      Escape: () => zoom(top.parent ?? root),
    };
    if (!steps[event.key]) return;
    event.preventDefault();
    steps[event.key]();
  });
  search.addEventListener("input", () => {
    // What a zoom hides cannot be found.
    top = root;
    current = root;
    const wanted = search.value.trim().toLowerCase();
    found = new Set(wanted ? nodes.filter((node) => node.parent && node.name.toLowerCase().includes(wanted)) : []);
    // Each launch counts once, for any number of matching names on its path.
    const outermost = [...found].filter((node) => !path(node.parent).some((above) => found.has(above)));
    const sum = outermost.reduce((total, node) => total + share(node), 0);
    jumps = 0;
    count.textContent = wanted ? `${found.size} names, ${percent(sum)} of ${METRICS[metric][0]}` : "";
    holder.classList.toggle("searching", wanted !== "");
    draw();
  });
  // Enter jumps from one found name to the next.
  let jumps = 0;
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found.size) return;
    event.preventDefault();
    const outermost = [...found].filter((node) => !path(node.parent).some((above) => found.has(above)));
    const node = outermost.sort((a, b) => cost(b) - cost(a))[jumps % outermost.length];
    jumps += 1;
    top = node;
    current = node;
    draw();
    describe(node);
  });
  choice.addEventListener("change", () => {
    metric = Number(choice.value);
    draw();
    search.dispatchEvent(new Event("input"));
    describe(current);
  });
  back.addEventListener("click", () => zoom(root));
  holder.append(element("div", { className: "tools" }, search, choice, back, count, levels), canvas, about);
  draw();
  describe(root);
  addEventListener("resize", draw);
}

for (const holder of document.querySelectorAll("[data-picture=paths]")) icicle(holder, DATA.paths);
