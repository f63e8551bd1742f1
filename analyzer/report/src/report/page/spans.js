// Data of the timeline: packed columns of integers become lanes, each with the begin, end and name of its pieces of work.

/** Rows of nested ops in a thread. Deeper ones share the last row. */
const DEEPEST = 12;
/** Lanes that are drawn. */
const LANES = 240;

/** The bytes of a packed text. */
async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The columns of a packed text: each is a function that gives its next number. */
async function unpacked(text) {
  const bytes = await inflated(text);
  let at = 0;
  const number = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at];
      at += 1;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  const begins = [];
  while (at < bytes.length) {
    const length = number();
    begins.push(at);
    at += length;
  }
  const column = (begin) => () => {
    at = begin;
    const value = number();
    begin = at;
    return value;
  };
  return begins.map(column);
}

/** A difference: 0, -1, 1, -2 and so on are written as 0, 1, 2, 3. */
function signed(value) {
  return value % 2 ? -(value + 1) / 2 : value / 2;
}

/** A column of differences as numbers. */
function running(next) {
  let last = 0;
  return () => (last += signed(next()));
}

/** A lane of so many pieces. `furthest` is the latest end up to a piece: pieces rarely overlap, but may. */
function laneOf(count, facts) {
  const [begin, end, furthest] = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
  return { count, begin, end, furthest, name: new Uint32Array(count), ...facts };
}

/** Fills `furthest`. */
function finished(lane) {
  let latest = -Infinity;
  lane.end.forEach((end, at) => (lane.furthest[at] = latest = Math.max(latest, end)));
  return lane;
}

/** A lane for each stream. */
async function streamLanes({ streams, activities }) {
  const [from, length, name, step, thread, callLength, call, op, gap, cause] = await unpacked(activities);
  const [nextStep, nextThread, nextCall] = [step, thread, call].map(running);
  return streams.map((stream) => {
    const lane = laneOf(stream.count, { kind: "stream", ...stream });
    const numbers = () => new Float64Array(stream.count);
    Object.assign(lane, { step: numbers(), thread: numbers(), callBegin: numbers(), callEnd: numbers(), op: numbers(), gap: numbers(), cause: numbers() });
    let last = 0;
    lane.begin.forEach((_, at) => {
      lane.begin[at] = last + signed(from());
      last = lane.end[at] = lane.begin[at] + length();
      lane.name[at] = name();
      lane.step[at] = nextStep();
      lane.thread[at] = nextThread();
      const called = callLength();
      lane.callBegin[at] = called ? nextCall() : NaN;
      lane.callEnd[at] = lane.callBegin[at] + called - 1;
      lane.op[at] = op() - 1;
      lane.gap[at] = gap();
      lane.cause[at] = cause();
    });
    return finished(lane);
  });
}

/** Lanes of nested ops and ranges for each thread, and one of its waits or calls. */
async function threadLanes({ threads, spans }) {
  const [from, length, name] = await unpacked(spans);
  const begin = running(from);
  return threads.flatMap((thread) => {
    const rows = [];
    const open = [];
    const next = () => {
      const start = begin();
      return { begin: start, end: start + length(), name: name() };
    };
    for (const piece of Array.from({ length: thread.count }, next)) {
      while (open.length && open.at(-1) <= piece.begin) open.pop();
      const depth = Math.min(open.length, DEEPEST - 1);
      (rows[depth] ??= []).push(piece);
      open.push(piece.end);
    }
    return rows.map((pieces, depth) => filled(pieces, { kind: "thread", depth, ...thread }));
  });
}

/** A lane of pieces in order. */
function filled(pieces, facts) {
  const lane = laneOf(pieces.length, { ...facts, count: pieces.length });
  pieces.forEach((piece, at) => {
    [lane.begin[at], lane.end[at], lane.name[at]] = [piece.begin, piece.end, piece.name];
  });
  return finished(lane);
}

/** A lane of launch calls for each thread: `of` is the work that a call asked for. */
function callLanes(streams) {
  const calls = new Map();
  for (const lane of streams) {
    lane.callBegin.forEach((begin, at) => {
      if (Number.isNaN(begin) || lane.thread[at] < 0) return;
      const key = `${lane.run} ${lane.thread[at]}`;
      if (!calls.has(key)) calls.set(key, []);
      calls.get(key).push({ begin, end: lane.callEnd[at], name: lane.name[at], lane, at });
    });
  }
  return [...calls.values()].map((pieces) => {
    pieces.sort((a, b) => a.begin - b.begin || a.lane.begin[a.at] - b.lane.begin[b.at]);
    // All nodes of a CUDA graph have one call: it leads to the first of them.
    const calls = pieces.filter((piece, place) => !place || piece.begin !== pieces[place - 1].begin);
    const [first] = calls;
    const facts = { kind: "calls", run: first.lane.run, rank: first.lane.rank, thread: first.lane.thread[first.at] };
    return Object.assign(filled(calls, facts), { of: calls });
  });
}

/** A lane of steps and phases for each GPU. */
function stepLanes(steps) {
  const lanes = new Map();
  for (const step of steps) {
    const key = `${step.run} ${step.device}`;
    if (!lanes.has(key)) lanes.set(key, []);
    lanes.get(key).push({ begin: step.from, end: step.from + step.length, name: 0, step });
  }
  return [...lanes.values()].map((pieces) => {
    const { run, rank, device } = pieces[0].step;
    return Object.assign(filled(pieces, { kind: "steps", run, rank, device }), { of: pieces.map((piece) => piece.step) });
  });
}

/** All lanes in drawing order, run by run: steps, streams, threads with their calls. */
async function lanesOf(data) {
  const streams = await streamLanes(data);
  const steps = stepLanes(data.steps);
  const threads = [...(await threadLanes(data)), ...callLanes(streams)];
  const rank = { steps: 0, stream: 1, thread: 2, calls: 3 };
  // A wait has no thread: it is last.
  const order = (lane) => [lane.run, lane.device === undefined ? 1 : 0, lane.device ?? lane.thread ?? Infinity, rank[lane.kind], lane.depth ?? lane.stream ?? 0];
  const all = [...steps, ...streams, ...threads];
  const keys = new Map(all.map((lane) => [lane, order(lane)]));
  all.sort((a, b) => {
    const [one, other] = [keys.get(a), keys.get(b)];
    const at = one.findIndex((value, place) => value !== other[place]);
    return at < 0 ? 0 : one[at] < other[at] ? -1 : 1;
  });
  return all.slice(0, LANES);
}

/** A lane's name, with its rank or run if there are several. */
function laneLabel(lane, isOne) {
  const of = isOne ? "" : `${lane.rank === null ? `run ${lane.run}` : `rank ${lane.rank}`} `;
  if (lane.kind === "steps") return `${of}GPU ${lane.device} steps`;
  if (lane.kind === "stream") return `${of}GPU ${lane.device} stream ${lane.stream ?? "?"}`;
  if (lane.thread === null) return `${of}waits for the GPU`;
  if (lane.kind === "calls") return `${of}thread ${lane.thread} calls`;
  return lane.depth > 0 ? "" : `${of}thread ${lane.thread}`;
}

/** Queries behind a step: its row, its work, its times without work. */
function stepQueries({ run, device, step }) {
  const where = (table) => `${table}run_id = ${run} AND ${table}device_id = ${device} AND ${table}program_step = ${step}`;
  const work = [
    "SELECT n.short_kernel, a.kind, a.copy_kind, count(*) AS count, sum(a.end_ns - a.begin_ns) AS time_ns",
    "FROM activity_phase p",
    "JOIN gpu_activity a ON a.run_id = p.run_id AND a.activity_id = p.activity_id",
    "LEFT JOIN launch l ON l.kernel_id = a.kernel_id",
    "LEFT JOIN kernel_name n ON n.function_id = l.function_id",
    `WHERE ${where("p.")}`,
    "GROUP BY n.short_kernel, a.kind, a.copy_kind",
    "ORDER BY time_ns DESC;",
  ];
  const idle = [
    "SELECT g.duration_ns, g.cause, g.next_kind, g.next_kernel_id",
    "FROM gpu_gap g",
    "JOIN activity_phase p ON p.run_id = g.run_id AND p.activity_id = g.next_activity_id",
    `WHERE ${where("p.")}`,
    "ORDER BY g.duration_ns DESC;",
  ];
  return [
    ["This step", `SELECT *\nFROM program_step\nWHERE ${where("")};\n`],
    ["Its work", `${work.join("\n")}\n`],
    ["Its times without work", `${idle.join("\n")}\n`],
  ];
}

/** The query behind a piece of work. Times of the page are numbers since a base, which are exact as integers only. */
function workQuery(lane, at) {
  const begin = BigInt(lane.base) + BigInt(lane.begin[at]);
  const stream = lane.stream === null ? "IS NULL" : `= ${lane.stream}`;
  const lines = [
    "SELECT a.*, a.end_ns - a.begin_ns AS duration_ns, g.duration_ns AS gap_ns, g.cause",
    "FROM gpu_activity a",
    "LEFT JOIN gpu_gap g ON g.run_id = a.run_id AND g.next_activity_id = a.activity_id",
    `WHERE a.run_id = ${lane.run} AND a.device_id = ${lane.device} AND a.stream_id ${stream} AND a.begin_ns = ${begin};`,
  ];
  return `${lines.join("\n")}\n`;
}

/** A colour of the page. */
function tone(name) {
  const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return value.startsWith("#") ? value : `rgb(${value})`;
}

/** Texts in singular and plural. */
function several(count, one, many) {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
}
