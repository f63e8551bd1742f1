// Blocks over time: a lane for each multiprocessor, a colour for each wave. A pointer or arrows read blocks.

/** Height of all lanes, and the least of one. */
const [LANES_TALL, LANE_LEAST] = [528, 4];
/** Colours of the page, wave after wave. */
const WAVE_TONES = ["--link", "--hot", "--good", "--charged"];

/** The blocks of a launch: each has the first slot of its multiprocessor that is free when it begins. */
function timedBlocks(launch) {
  const blocks = [];
  let slots = 1;
  launch.lanes.forEach(([multiprocessor, numbers], lane) => {
    const ends = [];
    for (const place of Array(numbers.length / 4).keys()) {
      const [block, begin, length, wave] = numbers.slice(4 * place, 4 * place + 4);
      const free = ends.findIndex((end) => end <= begin);
      const slot = free < 0 ? ends.length : free;
      ends[slot] = begin + length;
      blocks.push({ block, begin, length, wave, lane, slot, multiprocessor });
    }
    slots = Math.max(slots, ends.length);
  });
  return { blocks, slots };
}

function waves(holder, launches) {
  const canvas = element("canvas", { tabIndex: 0, role: "img" });
  const pane = canvas.getContext("2d");
  const about = element("p", { className: "about", ariaLive: "polite" });
  const which = element("select", { ariaLabel: "launch" });
  which.append(...launches.map(({ name }, at) => element("option", { value: at, textContent: plain(name) })));
  const axis = element("div", { className: "axis" });
  const made = new Map();
  let [launch, blocks, slots, tall, chosen] = [null, [], 1, LANE_LEAST, 0];

  const placed = (at) => made.get(at) ?? made.set(at, timedBlocks(launches[at])).get(at);
  const rowOf = ({ lane, slot }) => lane * tall + (slot * tall) / slots;

  function draw() {
    const [width, ratio] = [canvas.clientWidth, devicePixelRatio];
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(launch.lanes.length * tall * ratio);
    pane.setTransform(ratio, 0, 0, ratio, 0, 0);
    const tones = WAVE_TONES.map(tone);
    const scale = width / launch.span;
    // Thin slots blend: a lane with half of its slots in use is half as dark.
    const height = Math.max(tall / slots - (tall / slots >= 3 ? 0.5 : 0), 0.1);
    for (const block of blocks) {
      pane.fillStyle = tones[block.wave % tones.length];
      const wide = block.length * scale;
      pane.fillRect(block.begin * scale, rowOf(block), Math.max(wide - (wide > 3 ? 0.5 : 0), 0.3), height);
    }
    const block = blocks[chosen];
    pane.strokeStyle = tone("--text");
    pane.lineWidth = 2;
    if (block) pane.strokeRect(block.begin * scale, rowOf(block), Math.max(block.length * scale, 2), Math.max(tall / slots, 2));
  }

  function describe() {
    const { block, multiprocessor, begin, length, wave } = blocks[chosen];
    about.textContent = `block ${block.toLocaleString("en-US")} on multiprocessor ${multiprocessor}, wave ${wave + 1}: begins after ${nanoseconds(begin)}, takes ${nanoseconds(length)}`;
    canvas.ariaLabel = `Blocks of ${plain(launch.name)}: ${launch.lanes.length} multiprocessors. Chosen: ${about.textContent}. Arrow keys read blocks, End the one that ends last`;
  }

  function go(at) {
    if (at < 0 || at >= blocks.length || at === chosen) return;
    chosen = at;
    draw();
    describe();
  }

  /** The block that ends last. */
  function last() {
    return blocks.reduce((best, { begin, length }, at) => (begin + length > blocks[best].begin + blocks[best].length ? at : best), 0);
  }

  function choose() {
    launch = launches[Number(which.value)];
    ({ blocks, slots } = placed(Number(which.value)));
    tall = Math.max(LANE_LEAST, Math.min(24, Math.floor(LANES_TALL / launch.lanes.length)));
    axis.replaceChildren(element("span", { textContent: "0" }), element("span", { textContent: nanoseconds(launch.span) }));
    chosen = last();
    draw();
    describe();
  }

  /** The block of a lane that runs at a time, in the slot at a height or in the next one that has any. */
  function under(lane, ns, height) {
    const distance = ({ slot }) => Math.abs(slot - Math.floor((height / tall) * slots));
    const runs = blocks.flatMap((block, at) => (block.lane === lane && block.begin <= ns && ns <= block.begin + block.length ? [at] : []));
    return runs.sort((one, other) => distance(blocks[one]) - distance(blocks[other]))[0];
  }

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const [down, ns] = [event.clientY - box.top, ((event.clientX - box.left) / box.width) * launch.span];
    const found = under(Math.floor(down / tall), ns, down % tall);
    if (found !== undefined) go(found);
  });

  /** The block of another lane that begins closest to the chosen one. */
  function across(by) {
    const { lane, begin } = blocks[chosen];
    const near = blocks.flatMap((block, at) => (block.lane === lane + by ? [at] : []));
    return near.sort((one, other) => Math.abs(blocks[one].begin - begin) - Math.abs(blocks[other].begin - begin))[0] ?? chosen;
  }

  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: () => chosen - 1, ArrowRight: () => chosen + 1, ArrowUp: () => across(-1), ArrowDown: () => across(1), Home: () => 0, End: last };
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(steps, event.key)) return;
    event.preventDefault();
    go(steps[event.key]());
  });
  which.addEventListener("change", choose);
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", draw);
  const legend = element("p", { className: "dim small", textContent: "A lane is a multiprocessor, from left to right the launch's time. Colours change from wave to wave." });
  const region = element("div", { className: "scroll", tabIndex: 0, ariaLabel: "Lanes of multiprocessors" }, canvas);
  region.setAttribute("role", "region");
  holder.append(element("div", { className: "tools" }, element("label", {}, "launch", which)), legend, region, axis, about);
  choose();
  new ResizeObserver(draw).observe(region);
  return { blocks: () => blocks, chosen: () => blocks[chosen], lanes: () => launch.lanes.length };
}

for (const holder of document.querySelectorAll("[data-picture=waves]")) holder.drawn = waves(holder, DATA.waves);
