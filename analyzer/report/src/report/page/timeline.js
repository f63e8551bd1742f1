// The timeline to zoom into: steps, streams, threads. Keys and buttons do all that a pointer does.

const LANE = 20;
const AXIS = 20;
/** Shortest view, nanoseconds, and rows of a list about a step. */
const [SHORTEST, LISTED] = [50, 8];
/** Causes of idle time, by number. */
const CAUSES = ["cause unknown", "its launch had begun before", "late launch", "late copy"];
const PHASES = { setup: "set-up", end: "end", once: "the program, which repeats nothing" };
/** Colours of the page, by the kind of work. */
const TONES = { kernel: "--hot", collective: "--good", copy: "--charged", fill: "--charged", wait: "--dim", region: "--dim", steps: "--dim" };

function timeline(holder, data, lanes) {
  const canvas = element("canvas", { tabIndex: 0 });
  const pane = canvas.getContext("2d");
  const about = element("div", { className: "about", ariaLive: "polite" });
  const here = element("p", { className: "dim small", textContent: " " });
  const names = data.names.map(([text, kind, anchor]) => ({ text: plain(text), kind, anchor }));
  const streams = lanes.filter((lane) => lane.kind === "stream");
  const all = { from: Math.min(...lanes.map((lane) => lane.begin[0])), to: Math.max(...lanes.map((lane) => lane.furthest[lane.count - 1])) };
  const runs = new Set(lanes.map((lane) => lane.run));
  const stepLane = lanes.find((lane) => lane.kind === "steps" && lane.of.some((step) => step.median)) ?? lanes.find((lane) => lane.kind === "steps");
  let view = { ...all };
  let chosen = null;
  let isQueued = false;
  let tones = {};
  canvas.setAttribute("role", "application");

  const label = (lane) => laneLabel(lane, runs.size < 2);
  const labels = lanes.map(label);
  const gutter = () => Math.min(150, canvas.clientWidth * 0.28);
  const scale = () => (canvas.clientWidth - gutter()) / (view.to - view.from);
  const x = (ns) => gutter() + (ns - view.from) * scale();
  const kindOf = (lane, at) => (lane.kind === "steps" ? "steps" : lane.kind === "calls" ? "call" : names[lane.name[at]].kind);
  function textOf(lane, at) {
    if (lane.kind !== "steps") return names[lane.name[at]].text;
    const { step, phase } = lane.of[at];
    return step === null ? PHASES[phase] : `step ${step}`;
  }

  /** The first piece of a lane that ends behind a time. */
  function firstAfter(lane, ns) {
    let [low, high] = [0, lane.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.furthest[middle] > ns) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Draws one lane. Pieces below a pixel are a bar whose height is their part of the pixel. */
  function drawLane(lane, top, left, right) {
    const [pixels, height] = [scale(), LANE - 3];
    let [column, part, shade] = [-1, 0, ""];
    const flush = () => {
      if (part > 0) {
        pane.fillStyle = shade;
        const tall = Math.max(1, Math.min(1, part) * height);
        pane.fillRect(column, top + height - tall, 1, tall);
      }
      part = 0;
    };
    let at = firstAfter(lane, view.from) - 1;
    // Behind the last piece there is nothing to compare.
    while (lane.begin[at + 1] < view.to) {
      at += 1;
      const begin = left + (lane.begin[at] - view.from) * pixels;
      const wide = (lane.end[at] - lane.begin[at]) * pixels;
      const colour = tones[kindOf(lane, at)] ?? tones.op;
      if (wide < 1.5) {
        const place = Math.floor(begin);
        if (place !== column) {
          flush();
          [column, shade] = [place, colour];
        }
        part += wide;
        continue;
      }
      flush();
      const [from, to] = [Math.max(begin, left), Math.min(begin + wide, right)];
      pane.globalAlpha = 0.28;
      pane.fillStyle = colour;
      pane.fillRect(from, top, to - from, height);
      pane.globalAlpha = 1;
      pane.fillRect(from, top, 1, height);
      const letters = Math.floor((to - from - 6) / 6.2);
      if (letters < 3) continue;
      pane.fillStyle = tones.text;
      const name = textOf(lane, at).replace(/^aten::/, "");
      pane.fillText(name.length > letters ? `${name.slice(0, letters - 1)}…` : name, from + 4, top + height / 2);
    }
    flush();
  }

  /** Times above the lanes. */
  function drawAxis(left, right) {
    const wanted = ((view.to - view.from) * 110) / (right - left);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= wanted);
    pane.fillStyle = tones.dim;
    const first = Math.ceil(view.from / step) * step;
    for (const place of Array(Math.max(Math.ceil((view.to - first) / step), 0)).keys()) {
      const ns = first + place * step;
      pane.globalAlpha = 0.3;
      pane.fillRect(x(ns), AXIS - 4, 1, canvas.clientHeight);
      pane.globalAlpha = 1;
      // Late times differ in their last digits: only the first is since the begin of the run.
      pane.fillText(ns === first ? nanoseconds(Math.round(ns)) : `+${nanoseconds(Math.round(ns - first))}`, x(ns) + 3, AXIS / 2);
    }
  }

  /** A frame around what is chosen, and a line from a call to its work. */
  function drawChosen() {
    if (!chosen) return;
    const row = (lane) => AXIS + lanes.indexOf(lane) * LANE;
    const left = gutter();
    pane.strokeStyle = tones.text;
    pane.lineWidth = 2;
    const { lane, at } = chosen;
    const [from, to] = [lane.begin[at], lane.end[at]].map(x);
    if (to >= left) pane.strokeRect(Math.max(from, left), row(lane), Math.max(to - Math.max(from, left), 2), LANE - 3);
    const calls = lane.kind === "stream" && lanes.find((other) => other.kind === "calls" && other.run === lane.run && other.thread === lane.thread[at]);
    if (!calls || Number.isNaN(lane.callBegin[at])) return;
    pane.lineWidth = 1;
    pane.beginPath();
    pane.moveTo(Math.max(x(lane.callBegin[at]), left), row(calls));
    pane.lineTo(Math.max(from, left), row(lane) + LANE - 3);
    pane.stroke();
  }

  function draw() {
    isQueued = false;
    const [width, height, ratio] = [canvas.clientWidth, AXIS + lanes.length * LANE, devicePixelRatio];
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pane.setTransform(ratio, 0, 0, ratio, 0, 0);
    pane.clearRect(0, 0, width, height);
    pane.font = "11px system-ui, sans-serif";
    pane.textBaseline = "middle";
    const left = gutter();
    drawAxis(left, width);
    lanes.forEach((lane, place) => drawLane(lane, AXIS + place * LANE, left, width));
    drawChosen();
    pane.fillStyle = tones.pane;
    pane.fillRect(0, 0, left - 2, height);
    pane.fillStyle = tones.text;
    labels.forEach((text, place) => pane.fillText(text, 4, AXIS + place * LANE + LANE / 2 - 1, left - 8));
    canvas.ariaLabel = `Timeline from ${nanoseconds(Math.round(view.from))} to ${nanoseconds(Math.round(view.to))}. ${chosen ? textOf(chosen.lane, chosen.at) : "Nothing"} is chosen`;
  }

  function redraw() {
    if (!isQueued) requestAnimationFrame(draw);
    isQueued = true;
  }

  function paint() {
    tones = { text: tone("--text"), dim: tone("--dim"), pane: tone("--pane"), op: tone("--link"), call: tone("--hot") };
    for (const [kind, name] of Object.entries(TONES)) tones[kind] = tone(name);
    redraw();
  }

  /** Shows a stretch of time, which stays inside of the run. */
  function show(from, to) {
    const whole = all.to - all.from;
    const length = Math.min(Math.max(to - from, SHORTEST), whole * 1.1);
    const middle = Math.min(Math.max((from + to) / 2, all.from), all.to);
    view = { from: middle - length / 2, to: middle + length / 2 };
    redraw();
  }

  /** Zooms by a factor around a time. */
  function zoom(factor, ns = (view.from + view.to) / 2) {
    show(ns - (ns - view.from) * factor, ns + (view.to - ns) * factor);
  }

  function pan(part) {
    const by = (view.to - view.from) * part;
    show(view.from + by, view.to + by);
  }

  /** Shows a piece with some time around it. */
  function fit(lane, at, around) {
    const length = lane.end[at] - lane.begin[at];
    show(lane.begin[at] - length * around, lane.end[at] + length * around);
  }

  function choose(lane, at) {
    chosen = { lane, at };
    describe();
    redraw();
  }

  /** Chooses a piece, and moves the view where it does not show it. */
  function jump(lane, at) {
    const length = lane.end[at] - lane.begin[at];
    const isSeen = lane.begin[at] >= view.from && lane.end[at] <= view.to && length * scale() >= 4;
    if (!isSeen) fit(lane, at, lane.kind === "steps" ? 0.03 : 12);
    choose(lane, at);
  }

  /** A button that leads to a piece. */
  function leading(text, lane, at) {
    const button = element("button", { type: "button", textContent: text });
    button.addEventListener("click", () => {
      jump(lane, at);
      canvas.focus({ preventScroll: true });
    });
    return button;
  }

  /** A query behind numbers. */
  function query(title, sql) {
    const caption = element("figcaption", { textContent: title });
    caption.append(copier(() => sql));
    const pre = element("pre", { tabIndex: 0 }, element("code", { textContent: sql }));
    return element("figure", {}, caption, pre);
  }

  function queries(...figures) {
    return element("details", { className: "sql" }, element("summary", { textContent: "SQL" }), ...figures);
  }

  /** The work of a step on its GPU: its kernels by name, and its gaps. */
  function workOf(step) {
    const [sums, gaps] = [new Map(), []];
    for (const lane of streams.filter((lane) => lane.run === step.run && lane.device === step.device)) {
      let at = firstAfter(lane, step.from - 1) - 1;
      while (lane.begin[at + 1] < step.from + step.length) {
        at += 1;
        if (lane.step[at] !== step.step) continue;
        const length = lane.end[at] - lane.begin[at];
        const sum = sums.get(lane.name[at]) ?? { name: names[lane.name[at]], count: 0, time: 0, longest: 0 };
        if (length >= sum.longest) Object.assign(sum, { longest: length, lane, at });
        sum.count += 1;
        sum.time += length;
        sums.set(lane.name[at], sum);
        if (lane.gap[at] > 0) gaps.push({ lane, at, gap: lane.gap[at] });
      }
    }
    return { sums: [...sums.values()].sort((a, b) => b.time - a.time), gaps: gaps.sort((a, b) => b.gap - a.gap) };
  }

  function describeStep(lane, at) {
    const step = lane.of[at];
    const steps = lane.of.filter((other) => other.step !== null);
    const title = step.step === null ? textOf(lane, at) : `step ${step.step}, ${several(steps.length, "step", "steps")} on GPU ${step.device}${step.median ? ", the median one" : ""}`;
    about.replaceChildren(element("p", { className: "code", textContent: `${title}: ${nanoseconds(step.length)}` }));
    if (step.step === null) return;
    const words = ["kernels", "collectives alone", "copies alone", "idle", "before late launches", "before late copies to the GPU", "after waits of the host"];
    const parts = (from, to) => words.slice(from, to).flatMap((word, place) => (step.shares[from + place] > 0 ? `${percent(step.shares[from + place])} ${word}` : [])).join(", ");
    const idle = parts(4, 7);
    about.append(element("p", { className: "dim", textContent: parts(0, 4) + (idle ? `. Idle, in parts of the step: ${idle}` : "") }));
    const { sums, gaps } = workOf(step);
    if (!sums.length) about.append(element("p", { className: "dim", textContent: "The page holds no work of this step: see the number of rows below." }));
    const list = (heading, rows) => rows.length && about.append(element("h3", { textContent: heading }), element("ul", {}, ...rows.map((row) => element("li", {}, ...row))));
    list("Its work by time", sums.slice(0, LISTED).map((sum) => [leading(sum.name.text, sum.lane, sum.at), ` ${nanoseconds(sum.time)} in ${sum.count}`]));
    list("Its longest times without work", gaps.slice(0, LISTED).map(({ lane, at, gap }) => [`${nanoseconds(gap)} before `, leading(textOf(lane, at), lane, at), `: ${CAUSES[lane.cause[at]]}`]));
    about.append(queries(...stepQueries(step).map(([title, sql]) => query(title, sql))));
  }

  function describeWork(lane, at) {
    const name = names[lane.name[at]];
    about.replaceChildren(element("p", { className: "code", textContent: `${name.text}: ${nanoseconds(lane.end[at] - lane.begin[at])}` }));
    const words = [`${name.kind} on ${label(lane)}`];
    if (lane.op[at] >= 0) words.push(`in ${names[lane.op[at]].text}`);
    if (!Number.isNaN(lane.callBegin[at])) words.push(`begins ${nanoseconds(lane.begin[at] - lane.callBegin[at])} behind the begin of its call, which takes ${nanoseconds(lane.callEnd[at] - lane.callBegin[at])}`);
    words.push(lane.gap[at] > 0 ? `the GPU had no work for ${nanoseconds(lane.gap[at])} before it: ${CAUSES[lane.cause[at]]}` : "the GPU had other work when it began, or right before it");
    about.append(element("p", { className: "dim", textContent: `${words.join("; ")}.` }));
    const links = element("p");
    if (name.anchor) links.append(element("a", { href: `#${name.anchor}`, textContent: "its waits" }), " ");
    const steps = lanes.find((other) => other.kind === "steps" && other.run === lane.run && other.device === lane.device);
    const back = steps ? steps.of.findIndex((step) => (lane.step[at] >= 0 ? step.step === lane.step[at] : step.step === null && step.from <= lane.begin[at] && lane.begin[at] < step.from + step.length)) : -1;
    if (back >= 0) links.append(leading(`back to ${textOf(steps, back)}`, steps, back));
    about.append(links);
    about.append(queries(query("This work", workQuery(lane, at))));
  }

  /** An op, a range, or a wait: its numbers, and the first work that it asked for. */
  function describeHost(lane, at) {
    const name = names[lane.name[at]];
    const length = lane.end[at] - lane.begin[at];
    about.replaceChildren(element("p", { className: "code", textContent: `${name.text}: ${nanoseconds(length)}` }));
    about.append(element("p", { className: "dim", textContent: `${name.kind}, ${lane.thread === null ? "of the host" : `on thread ${lane.thread}`}` }));
    const calls = lanes.find((other) => other.kind === "calls" && other.run === lane.run && other.thread === lane.thread);
    const inside = [];
    let call = calls ? firstAfter(calls, lane.begin[at]) - 1 : 0;
    while (calls?.begin[call + 1] < lane.end[at]) {
      call += 1;
      if (calls.begin[call] >= lane.begin[at] && calls.end[call] <= lane.end[at]) inside.push(calls.of[call]);
    }
    if (inside.length) about.append(element("p", {}, `asks for ${several(inside.length, "piece of work", "pieces of work")}, first `, leading(names[inside[0].name].text, inside[0].lane, inside[0].at)));
    about.append(queries(query("Spans of this name", `SELECT *\nFROM host_span\nWHERE run_id = ${lane.run} AND name = '${name.text.replaceAll("'", "''")}' AND end_ns - begin_ns = ${length};\n`)));
  }

  function describe() {
    const { lane, at } = chosen;
    if (lane.kind === "steps") describeStep(lane, at);
    else if (lane.kind === "stream") describeWork(lane, at);
    else if (lane.kind === "calls") choose(lane.of[at].lane, lane.of[at].at);
    else describeHost(lane, at);
  }

  /** The piece under a pointer. Of pieces below a pixel the nearest. */
  function under(event) {
    const box = canvas.getBoundingClientRect();
    const lane = lanes[Math.floor((event.clientY - box.top - AXIS) / LANE)];
    const ns = view.from + (event.clientX - box.left - gutter()) / scale();
    return lane && ns >= view.from ? near(lane, ns, 3 / scale()) : null;
  }

  /** The piece of a lane at a time, or the closest up to a distance. */
  function near(lane, ns, distance) {
    const first = firstAfter(lane, ns);
    const far = (at) => Math.max(lane.begin[at] - ns, ns - lane.end[at], 0);
    const found = [first - 1, first].filter((at) => at >= 0 && at < lane.count && far(at) <= distance).sort((a, b) => far(a) - far(b))[0];
    return found === undefined ? null : { lane, at: found };
  }

  /** Chooses the piece before or behind in the lane. */
  function along(by) {
    if (!chosen) return home();
    const at = chosen.at + by;
    if (at >= 0 && at < chosen.lane.count) jump(chosen.lane, at);
  }

  /** Chooses the closest piece of the lane above or below. */
  function across(by) {
    if (!chosen) return home();
    const { lane, at } = chosen;
    const ns = Math.max(lane.begin[at], view.from);
    let place = lanes.indexOf(lane);
    while (lanes[place + by]) {
      place += by;
      const found = near(lanes[place], ns, Infinity);
      // A call is shown as its work.
      if (found && lanes[place].kind !== "calls") return jump(found.lane, found.at);
    }
  }

  /** The step before or behind that of the choice. */
  function step(by) {
    if (!stepLane) return;
    const lane = lanes.find((other) => other.kind === "steps" && chosen && other.run === chosen.lane.run && other.device === (chosen.lane.device ?? other.device)) ?? stepLane;
    const middle = chosen?.lane === lane ? lane.begin[chosen.at] : (view.from + view.to) / 2;
    const current = lane.of.findIndex((one) => one.from <= middle && middle < one.from + one.length);
    const at = Math.min(Math.max(current + by, 0), lane.count - 1);
    fit(lane, at, 0.03);
    choose(lane, at);
  }

  /** The median step, or all of a program without steps. */
  function home() {
    if (!stepLane) return show(all.from, all.to);
    const at = Math.max(stepLane.of.findIndex((one) => one.median), 0);
    fit(stepLane, at, 0.03);
    choose(stepLane, at);
  }

  /** The longest step. */
  function slowest() {
    const at = stepLane.of.reduce((best, one, place) => (one.step !== null && (best < 0 || one.length > stepLane.of[best].length) ? place : best), -1);
    if (at >= 0) {
      fit(stepLane, at, 0.03);
      choose(stepLane, at);
    }
  }

  const KEYS = {
    w: () => zoom(0.6), "+": () => zoom(0.6), "=": () => zoom(0.6), s: () => zoom(1 / 0.6), "-": () => zoom(1 / 0.6),
    a: () => pan(-0.2), d: () => pan(0.2), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
    ArrowUp: () => across(-1), ArrowDown: () => across(1), ",": () => along(-1), ".": () => along(1),
    n: () => step(1), p: () => step(-1), m: home, 0: () => show(all.from, all.to),
    Enter: () => chosen && fit(chosen.lane, chosen.at, 0.1), Escape: home,
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, isMoved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      held.isMoved ||= Math.abs(event.clientX - held.x) > 3;
      const by = (held.x - event.clientX) / scale();
      if (held.isMoved) show(held.from + by, held.to + by);
      return;
    }
    const found = under(event);
    here.textContent = found ? `${textOf(found.lane, found.at)}, ${nanoseconds(found.lane.end[found.at] - found.lane.begin[found.at])}` : " ";
  });
  canvas.addEventListener("pointerup", (event) => {
    const found = held && !held.isMoved ? under(event) : null;
    held = null;
    if (found) choose(found.lane, found.at);
  });
  canvas.addEventListener("dblclick", (event) => {
    const found = under(event);
    if (found) fit(found.lane, found.at, 0.1);
  });
  canvas.addEventListener("wheel", (event) => {
    // Without a key the page scrolls.
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) zoom(1.002 ** event.deltaY, view.from + (event.clientX - box.left - gutter()) / scale());
    else pan((event.deltaX || event.deltaY) / box.width);
  }, { passive: false });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  addEventListener("resize", redraw);

  const tools = element("div", { className: "tools" });
  const button = (text, run, title) => {
    const made = element("button", { type: "button", textContent: text, title });
    made.addEventListener("click", run);
    tools.append(made);
  };
  button("zoom in", KEYS.w, "w or +");
  button("zoom out", KEYS.s, "s or -");
  button("left", KEYS.a, "a or left arrow");
  button("right", KEYS.d, "d or right arrow");
  button("all", KEYS[0], "0");
  if (stepLane) {
    button("median step", home, "m or Escape");
    button("slowest step", slowest, "the longest step");
    button("step before", KEYS.p, "p");
    button("next step", KEYS.n, "n");
  }
  const [inside, works, host, spans] = data.counts;
  const part = [[inside, works, "pieces of work of the GPUs"], [host, spans, "ops, ranges and waits"]].filter(([shown, whole]) => shown < whole);
  const notes = part.map(([shown, whole, what]) => `${shown.toLocaleString("en-US")} of ${whole.toLocaleString("en-US")} ${what} are in the page: those closest to the median step, or to the middle.`);
  const keys = "Keys: w and s or + and - zoom, a and d or arrows move, n and p lead to the next step and the one before, up and down choose a row, comma and full stop a piece of it, Enter zooms to it, Escape leads back to the median step. A pointer drags, and zooms with Ctrl and the wheel.";
  const region = element("div", { className: "scroll lanes", tabIndex: 0, ariaLabel: "Lanes of the timeline" }, canvas);
  region.setAttribute("role", "region");
  holder.append(tools, region, here, about, element("p", { className: "dim small", textContent: [...notes, keys].join(" ") }));
  paint();
  new ResizeObserver(redraw).observe(region);
  home();
  if (!stepLane) about.append(element("p", { className: "dim", textContent: "Choose a piece of work with a pointer or the arrow keys." }));
  return { lanes, view: () => view, chosen: () => chosen, show, zoom, pan, draw, workOf };
}

for (const holder of document.querySelectorAll("[data-picture=timeline]")) {
  lanesOf(DATA.timeline)
    .then((lanes) => (holder.drawn = timeline(holder, DATA.timeline, lanes)))
    .catch((error) => holder.replaceChildren(element("p", { className: "dim", textContent: `This browser cannot unpack the timeline: ${error.message}` })));
}
