// Heat maps of tensors: controls for the tensor, the kind of access and the layer. Arrows or a pointer read bins.

const SIDE = 448;

/** A layer's bins from its runs of equal values. */
function unfolded(runs) {
  const cells = [];
  for (let at = 0; at < runs.length; at += 2) for (let left = runs[at + 1]; left > 0; left -= 1) cells.push(runs[at]);
  return cells;
}

/** Components of a colour of the page, by its name. */
function shade(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).split(",").map(Number);
}

function heat(holder, { layers, tensors }) {
  const canvas = element("canvas", { tabIndex: 0, role: "img" });
  const pane = canvas.getContext("2d");
  const about = element("p", { className: "about", ariaLive: "polite" });
  const facts = element("p", { className: "dim small" });
  const [above, side] = [element("div", { className: "axis" }), element("div", { className: "axis upright" })];
  const [least, most] = [element("span"), element("span")];
  const ramp = element("canvas", { width: 128, height: 1, className: "ramp" });
  const scale = element("div", { className: "scale" }, element("i", { className: "none" }), "not accessed", least, ramp, most);
  const chooser = (label, names) => {
    const made = element("select", { ariaLabel: label });
    made.append(...names.map((name, at) => element("option", { value: at, textContent: name })));
    made.addEventListener("change", () => choose(made));
    return made;
  };
  const which = chooser("tensor", tensors.map(({ name, type }) => plain(type ? `${name} ${type}` : name)));
  const layer = chooser("metric of colours", layers);
  const kind = chooser("kind of access", []);
  let [tensor, part, cells, touches, low, high, isFlat, at] = [null, null, [], [], 0, 0, false, 0];

  function choose(changed) {
    tensor = tensors[Number(which.value)];
    if (changed === which) {
      kind.replaceChildren(...tensor.kinds.map((one, at) => element("option", { value: at, textContent: plain(one.kind) })));
      at = 0;
    }
    part = tensor.kinds[Number(kind.value)];
    cells = unfolded(part.layers[Number(layer.value)]);
    touches = unfolded(part.layers[0]);
    const accessed = cells.filter((_, place) => touches[place]);
    [low, high] = [Math.min(...accessed), Math.max(0, ...accessed)];
    isFlat = low === high || !accessed.length;
    draw();
    describe();
  }

  /** The colour of a value, from the lowest to the highest. */
  function colour(share) {
    const [low, middle, top] = ["--heat-low", "--heat-middle", "--heat-top"].map(shade);
    const [from, to, way] = share < 0.5 ? [low, middle, share * 2] : [middle, top, share * 2 - 1];
    return `rgb(${from.map((value, place) => Math.round(value + (to[place] - value) * way)).join(",")})`;
  }

  function draw() {
    const steps = Array.from({ length: 129 }, (_, step) => colour(step / 128));
    const size = Math.max(1, Math.floor((SIDE * 2) / Math.max(tensor.rows, tensor.columns)));
    canvas.width = tensor.columns * size;
    canvas.height = tensor.rows * size;
    pane.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--rest");
    pane.fillRect(0, 0, canvas.width, canvas.height);
    cells.forEach((value, place) => {
      const box = [(place % tensor.columns) * size, Math.floor(place / tensor.columns) * size, size, size];
      if (isBeyond(place)) pane.clearRect(...box);
      if (!touches[place]) return;
      pane.fillStyle = steps[isFlat ? 64 : Math.round(((value - low) / (high - low)) * 128)];
      pane.fillRect(...box);
    });
    if (document.activeElement === canvas || holder.matches(":hover")) {
      // Visible on every colour: dark around light.
      const [left, top] = [(at % tensor.columns) * size, Math.floor(at / tensor.columns) * size];
      pane.lineWidth = 3;
      for (const [colour, out] of [["#fff", 0], ["#000", 3]]) {
        pane.strokeStyle = colour;
        pane.strokeRect(left - out, top - out, size + 2 * out, size + 2 * out);
      }
    }
    const bar = ramp.getContext("2d");
    for (let step = 0; step < 128; step += 1) {
      bar.fillStyle = steps[step];
      bar.fillRect(step, 0, 1, 1);
    }
    const name = layers[Number(layer.value)];
    ramp.hidden = isFlat;
    least.textContent = isFlat ? "" : measured(low);
    most.textContent = isFlat ? `${measured(high)} ${name} in every accessed bin` : `${measured(high)} ${name}`;
  }

  /** The first and the last index of a row or column of bins. */
  function range(place, count, extent) {
    return [Math.ceil((place * extent) / count), Math.ceil(((place + 1) * extent) / count) - 1];
  }

  function between([first, last]) {
    const [from, to] = [first, last].map((index) => index.toLocaleString("en-US"));
    return last > first ? `${from} to ${to}` : from;
  }

  /** The rows and columns of a bin's elements. */
  function ranges(place) {
    const [row, column] = [Math.floor(place / tensor.columns), place % tensor.columns];
    return [range(row, tensor.rows, tensor.rowExtent ?? 1), range(column, tensor.columns, tensor.columnExtent ?? 1)];
  }

  /** True for a bin beyond the last element of a wrapped dimension. */
  function isBeyond(place) {
    if (tensor.foldedExtent === null) return false;
    const [[line], [first]] = ranges(place);
    return line * tensor.columnExtent + first >= tensor.foldedExtent;
  }

  /** Location of a bin, by the indices of its elements. */
  function where(place) {
    const [rows, columns] = ranges(place);
    const [extent, length] = [tensor.foldedExtent, tensor.columnExtent];
    if (extent === null) return `row ${between(rows)}, column ${between(columns)}`;
    const first = rows[0] * length + columns[0];
    if (isBeyond(place)) return "behind the last element";
    // The last line may end before these columns begin.
    const line = rows[1] * length + columns[0] < extent ? rows[1] : rows[1] - 1;
    const [end, runs] = [line * length + columns[1], line - rows[0] + 1];
    const words = `element ${between([first, Math.min(extent - 1, end)])}`;
    const count = `${end < extent ? "" : "up to "}${columns[1] - columns[0] + 1}`;
    return runs > 1 ? `${words}, ${count} in each of ${runs} lines of ${length.toLocaleString("en-US")}` : words;
  }

  /** Label of a direction. */
  function axis(dimension, extent, otherwise) {
    const count = (extent ?? 1).toLocaleString("en-US");
    return dimension === null ? `${otherwise}, ${count}` : `dimension ${dimension}, ${count}`;
  }

  /** Labels of columns and rows. */
  function axes() {
    const { columnDimension, columnExtent, rowDimension, rowExtent, rows, foldedExtent } = tensor;
    if (foldedExtent === null || rows === 1) return [axis(columnDimension, columnExtent, "columns"), axis(rowDimension, rowExtent, "lines")];
    return [axis(null, columnExtent, "elements of a line"), `${axis(columnDimension, foldedExtent)}, in lines`];
  }

  function describe() {
    const values = layers.map((name, index) => `${measured(unfolded(part.layers[index])[at] ?? 0)} ${name}`);
    const what = touches[at] ? values.join(", ") : "not accessed";
    about.textContent = isBeyond(at) ? where(at) : `${where(at)}: ${what}`;
    const words = part.share === null ? [] : [`${percent(part.share)} of bins accessed`];
    const holes = part.holes[0];
    words.push(holes > 0 ? `${measured(holes)} accesses between its elements (holes), ${measured(part.holes[4])} samples attributed to them` : "no accesses between its elements (holes)");
    if (part.rate !== null && part.rate < 1) words.push(`blocks estimated from ${percent(part.rate)} of them`);
    if (tensor.site) words.push(`allocated at ${plain(tensor.site)}`);
    facts.textContent = words.join(" · ");
    above.replaceChildren(element("span", { textContent: "0" }), element("span", { textContent: `${axes()[0]} →` }));
    side.replaceChildren(element("span", { textContent: "0" }), element("span", { textContent: `${axes()[1]} →` }));
    canvas.ariaLabel = `${plain(tensor.name)}, ${plain(part.kind)}, ${layers[Number(layer.value)]}: ${facts.textContent}. Arrow keys read bins`;
  }

  function go(place) {
    if (place === at || place < 0 || place >= cells.length) return;
    at = place;
    draw();
    describe();
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const find = (part, whole, count) => Math.min(count - 1, Math.max(0, Math.floor((part / whole) * count)));
    go(find(event.clientY - box.top, box.height, tensor.rows) * tensor.columns + find(event.clientX - box.left, box.width, tensor.columns));
  });
  canvas.addEventListener("keydown", (event) => {
    const column = at % tensor.columns;
    const steps = { ArrowUp: -tensor.columns, ArrowDown: tensor.columns, ArrowLeft: column > 0 ? -1 : 0, ArrowRight: column + 1 < tensor.columns ? 1 : 0 };
    if (steps[event.key] === undefined) return;
    event.preventDefault();
    go(at + steps[event.key]);
  });
  for (const name of ["focus", "blur", "pointerleave"]) canvas.addEventListener(name, () => draw());
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", draw);
  const label = (text, select) => element("label", {}, text, select);
  const tools = element("div", { className: "tools" }, label("tensor", which), label("access", kind), label("colour", layer));
  holder.append(tools, scale, element("div", { className: "map" }, above, side, canvas), about, facts);
  choose(which);
}

for (const holder of document.querySelectorAll("[data-picture=heat]")) heat(holder, DATA.heat);
