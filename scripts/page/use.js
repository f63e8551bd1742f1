// What one can do with a page: a list of complaints.
(async () => {
  const wrong = [];
  const expect = (is, what) => is || wrong.push(what);
  const type = (input, text) => { input.value = text; input.dispatchEvent(new Event("input")); };
  const drawn = async (part) => {
    for (const _ of Array(100)) if (!part.drawn) await new Promise((done) => setTimeout(done, 50));
  };
  const icicle = document.querySelector(".icicle");
  if (icicle) {
    const nodes = () => [...icicle.querySelectorAll(".node")];
    const before = nodes().length;
    expect(before > 1, "no call paths are drawn");
    const leaf = nodes().at(-1);
    const name = leaf.title.split("\n")[0];
    type(icicle.querySelector("input"), name);
    const marked = nodes().filter((node) => node.classList.contains("found"));
    expect(marked.length > 0 && marked.every((node) => node.title.toLowerCase().includes(name.toLowerCase())), "search marks others");
    expect(/[1-9]\d* names, /.test(icicle.querySelector("output").textContent), "search does not count");
    type(icicle.querySelector("input"), "");
    expect(!icicle.querySelector(".found"), "an empty search marks something");
    // A search looks at everything, also while a part is shown.
    const first = nodes().find((node) => node.getAttribute("aria-level") === "2");
    nodes().at(-1).click();
    type(icicle.querySelector("input"), first.title.split("\n")[0]);
    expect(icicle.querySelector(".found"), "a zoom hides what is searched");
    icicle.querySelector("input").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    expect(icicle.querySelector(".found").style.width === "100%", "Enter does not jump to what is found");
    type(icicle.querySelector("input"), "");
    const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    nodes()[0].focus();
    press("ArrowDown");
    const child = document.activeElement.title;
    press("Enter");
    expect(document.activeElement.title === child && document.activeElement.style.width === "100%", "Enter does not zoom");
    press("Escape");
    expect(nodes().length === before, "Escape does not go back");
    expect(icicle.querySelector(".about code")?.textContent.includes("FROM call_path_cost"), "a node without its SQL");
  }
  for (const button of document.querySelectorAll(".fold")) {
    const rows = [...button.previousElementSibling.querySelectorAll("tbody tr")];
    const shown = () => rows.filter((row) => !row.classList.contains("folded")).length;
    expect(shown() === 10, `${shown()} rows are shown first`);
    button.click();
    expect(shown() === rows.length, "more does not show all rows");
    button.click();
  }
  for (const table of document.querySelectorAll("table.long")) {
    const column = [...table.tHead.rows[0].cells].findIndex((cell) => cell.classList.contains("n"));
    const values = () => [...table.tBodies[0].rows].filter((row) => !row.classList.contains("rest"))
      .map((row) => row.cells[column].dataset.v).filter((value) => value !== "").map(Number);
    const button = table.tHead.rows[0].cells[column].querySelector("button");
    button.click();
    expect(values().every((value, at, all) => at === 0 || value <= all[at - 1]), "descending order is none");
    button.click();
    expect(values().every((value, at, all) => at === 0 || value >= all[at - 1]), "ascending order is none");
    const input = table.parentElement.previousElementSibling?.querySelector("input");
    if (input) {
      type(input, "no row has this text");
      expect([...table.tBodies[0].rows].every((row) => row.hidden), "a filter keeps what does not match");
      type(input, "");
      expect([...table.tBodies[0].rows].every((row) => !row.hidden), "an empty filter hides something");
    }
  }
  for (const select of document.querySelectorAll(".heat select")) {
    for (const option of [...select.options]) {
      select.value = option.value;
      select.dispatchEvent(new Event("change"));
      const map = select.closest(".heat");
      expect(map.querySelector("canvas, svg"), "no heat map is drawn");
      if (select.ariaLabel !== "tensor") continue;
      const drawn = DATA.heat.tensors[Number(select.value)];
      const said = map.querySelector(".about").textContent;
      expect(/^(row|element) 0( to [\d,]+)?[,:]/.test(said) && said.startsWith("element") === (drawn.foldedExtent !== null), `a cell is called ${said}`);
      if (drawn.foldedExtent === null) continue;
      const press = (key) => map.querySelector(".map canvas").dispatchEvent(new KeyboardEvent("keydown", { key }));
      const about = () => map.querySelector(".about").textContent;
      for (let row = 1; row < drawn.rows; row += 1) press("ArrowDown");
      // The last row of cells has the last line, which ends in one of them.
      const end = () => Number(about().match(/^element (?:[\d,]+ to )?([\d,]+)/)?.[1].replaceAll(",", "") ?? -1);
      let last = end();
      for (let column = 1; column < drawn.columns; column += 1) {
        press("ArrowRight");
        last = Math.max(last, end());
      }
      expect(last === drawn.foldedExtent - 1, `the last of ${drawn.foldedExtent} elements is called ${last}`);
    }
  }
  const waves = document.querySelector(".waves");
  if (waves) expect(waves.drawn, "blocks over time are not drawn");
  if (waves?.drawn) {
    const { blocks, chosen, lanes } = waves.drawn;
    const [canvas, about, launch] = [waves.querySelector("canvas"), waves.querySelector(".about"), DATA.waves[0]];
    const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
    const end = ({ begin, length }) => begin + length;
    expect(blocks().length === launch.blocks && lanes() === launch.lanes.length, "blocks or multiprocessors are missing");
    expect(end(chosen()) === Math.max(...blocks().map(end)), "it does not open at the block that ends last");
    const order = [...blocks()].sort((a, b) => a.lane - b.lane || a.slot - b.slot || a.begin - b.begin);
    const meets = (block, at) => at > 0 && block.lane === order[at - 1].lane && block.slot === order[at - 1].slot && block.begin < end(order[at - 1]);
    expect(!order.some(meets), "blocks of one slot overlap");
    press("Home");
    expect(about.textContent.startsWith(`block ${launch.lanes[0][1][0].toLocaleString("en-US")} on multiprocessor ${launch.lanes[0][0]}, wave 1:`), "Home does not lead to the first block");
    press("ArrowDown");
    expect(chosen().lane === Math.min(1, lanes() - 1), "down leads to no other multiprocessor");
    const box = canvas.getBoundingClientRect();
    const [x, lane] = [box.width / 2, lanes() - 1];
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + ((lane + 0.5) * box.height) / lanes() }));
    const ns = (x / box.width) * launch.span;
    const runs = blocks().some((block) => block.lane === lane && block.begin <= ns && ns <= end(block));
    expect(!runs || (chosen().lane === lane && chosen().begin <= ns && ns <= end(chosen())), "a pointer does not lead to the block below it");
    const ink = canvas.getContext("2d", { willReadFrequently: true }).getImageData(0, 0, canvas.width, canvas.height).data;
    expect(ink.some((value) => value > 0), "no blocks are drawn");
  }
  const spans = document.querySelector(".spans");
  if (spans) await drawn(spans);
  if (spans) expect(spans.drawn, "the timeline is not drawn");
  if (spans?.drawn) {
    const { lanes, view, chosen } = spans.drawn;
    const canvas = spans.querySelector("canvas");
    const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
    const length = () => view().to - view().from;
    const count = (kind) => lanes.filter((lane) => lane.kind === kind).reduce((sum, lane) => sum + lane.count, 0);
    expect(count("stream") === DATA.timeline.counts[0], "pieces of work are missing");
    expect(count("thread") === DATA.timeline.counts[2], "ops, ranges or waits are missing");
    press("m");
    const median = DATA.timeline.steps.find((step) => step.median);
    const [from, to] = median ? [median.from, median.from + median.length] : [view().from, view().to];
    expect(view().from <= from && view().to >= to && length() <= Math.max((to - from) * 1.1, 51), "it does not open at the median step");
    expect(!median || spans.querySelector(".about").textContent.includes("the median one"), "the median step is not described");
    for (const [key, is] of [["w", (before, after) => after < before], ["s", (before, after) => after > before], ["+", (before, after) => after < before], ["-", (before, after) => after > before]]) {
      const before = length();
      press(key);
      expect(before <= 51 || is(before, length()), `${key} does not zoom`);
    }
    press("w");
    for (const [key, sign] of [["d", 1], ["a", -1], ["ArrowRight", 1], ["ArrowLeft", -1]]) {
      const before = view().from;
      press(key);
      expect(Math.sign(view().from - before) === sign, `${key} does not move`);
    }
    press("0");
    expect(lanes.every((lane) => lane.begin[0] >= view().from && lane.furthest[lane.count - 1] <= view().to), "0 does not show all");
    // From a step to its work, and back.
    press("m");
    const step = chosen();
    const leading = spans.querySelector(".about li button");
    if (leading) {
      leading.click();
      expect(chosen().lane.kind === "stream" && chosen().lane.step[chosen().at] === step.lane.of[step.at].step, "a step leads to no work of it");
      const back = [...spans.querySelectorAll(".about button")].find((button) => button.textContent.startsWith("back to step"));
      back?.click();
      expect(chosen().lane === step.lane && chosen().at === step.at, "work does not lead back to its step");
    }
    press("ArrowDown");
    expect(chosen(), "down chooses nothing");
    press("0");
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    const ink = canvas.getContext("2d", { willReadFrequently: true }).getImageData(Math.round(canvas.width * 0.3), 0, Math.round(canvas.width * 0.7), canvas.height).data;
    expect(ink.some((value) => value > 0), "the timeline is empty");
    press("m");
  }
  const kernel = document.querySelector("a[href^='#code-']");
  if (kernel) {
    location.hash = kernel.getAttribute("href");
    await new Promise((done) => setTimeout(done, 50));
    expect(document.getElementById(location.hash.slice(1)).open, "a link does not open what it leads into");
  }
  return wrong;
})()
