//! Ranges that a program names by NVTX or by PyTorch's profiler: rows of `op`, and contexts of launches.
//!
//! Ranges may begin before there is a session, which begins with CUDA, or while recording is paused. They wait on their
//! thread, and get their rows when the thread's first launch or range after that needs them. A process that never uses the
//! GPU leaves no trace.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stallmap_schema::capture::recording::OpEnd;
use stallmap_schema::id::OpId;
use stallmap_schema::tables::tensor::{Op, OpMetric, OpRange};
use stallmap_schema::word::{LossKind, OpKind, Phase, RangeSource};

use crate::context::{self, OpContext};
use crate::session;
use crate::torch::calls::{TorchState, lock};

/// Ranges that may be open on one thread, or by number in one process: those of a program that never ends them.
const MAX_OPEN_RANGES: usize = 1 << 12;
/// Bytes of a name.
const MAX_NAME_BYTES: usize = 1 << 12;

/// The beginning of a range, or a mark.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeBeginning {
    /// The interface that names it.
    pub source: RangeSource,
    /// Its domain, 0 for the default domain: a number of [`crate::torch::texts`].
    pub domain: i64,
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: Option<u32>,
    /// Its numbers.
    pub metrics: Vec<RangeMetric>,
}

/// A number of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeMetric {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: Option<String>,
}

/// Records numbers of a region.
pub fn emit_metrics(op_id: OpId, metrics: Vec<RangeMetric>) {
    for RangeMetric { name, value, unit } in metrics {
        session::emit(OpMetric { op_id, name, value, unit });
    }
}

/// A range that has begun.
struct OpenRange {
    beginning: RangeBeginning,
    begin_ns: i64,
    /// The row, once there is a session.
    op_id: Option<OpId>,
    ended: Arc<AtomicBool>,
    /// The number of a range that may end on any thread. None for one that ends in order.
    number: Option<u64>,
}

/// The ranges that end in order: those of one source and domain.
type RangeOrder = (RangeSource, i64);

/// The open ranges of a thread. Those that are not recorded, because there are too many, are counted.
#[derive(Default)]
struct ThreadRanges {
    generation: usize,
    open: Vec<OpenRange>,
    unrecorded: HashMap<RangeOrder, u32>,
}

/// A range that any thread may end.
pub(crate) struct StartedRange {
    op_id: OpId,
    ended: Arc<AtomicBool>,
}

/// The ranges of a session that any thread may end.
pub(crate) type StartedRanges = HashMap<u64, StartedRange>;

thread_local! {
    static RANGES: RefCell<Option<ThreadRanges>> = const { RefCell::new(None) };
    /// True if ranges of this thread wait for a session.
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
}

/// The number of the next range that any thread may end. 0 is none.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Begins a range of this thread. Returns how many of its source and domain were open.
pub fn push(beginning: RangeBeginning) -> usize {
    begin_early();
    with_ranges(|ranges| {
        let order = (beginning.source, beginning.domain);
        let depth = ranges.depth(order);
        if ranges.open.len() >= MAX_OPEN_RANGES {
            *ranges.unrecorded.entry(order).or_default() += 1;
            lose("too many ranges are open on a thread");
        } else {
            ranges.begin(beginning, None);
        }
        depth
    })
    .unwrap_or(0)
}

/// Ends the innermost range of this thread, a source and its domain. Returns how many of them are left. `None` where
/// there is none, which is counted.
pub fn pop(source: RangeSource, domain: i64) -> Option<usize> {
    begin_early();
    let order = (source, domain);
    let popped = with_ranges(|ranges| {
        if let Some(count) = ranges.unrecorded.get_mut(&order).filter(|count| **count > 0) {
            *count -= 1;
        } else {
            let at = ranges.open.iter().rposition(|range| range.order() == Some(order))?;
            end_range(&ranges.open.remove(at));
        }
        Some(ranges.depth(order))
    });
    if popped == Some(None) {
        lose("a range ended that its thread had not begun");
    }
    popped.flatten()
}

/// Begins a range that any thread may end. Returns its number.
pub fn start(beginning: RangeBeginning) -> u64 {
    begin_early();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let is_full = session::torch().is_some_and(|torch| lock(&torch.started).len() >= MAX_OPEN_RANGES);
    with_ranges(|ranges| {
        if is_full || ranges.open.len() >= MAX_OPEN_RANGES {
            lose("too many ranges are open on a thread");
        } else {
            ranges.begin(beginning, Some(number));
        }
    });
    number
}

/// Ends a range that was started. One that is not known is counted.
pub fn end(number: u64) {
    begin_early();
    let here = with_ranges(|ranges| {
        let at = ranges.open.iter().rposition(|range| range.number == Some(number))?;
        Some(ranges.open.remove(at))
    });
    let started = session::torch().and_then(|torch| lock(&torch.started).remove(&number));
    match (here.flatten(), started) {
        (Some(range), _) => end_range(&range),
        (None, Some(StartedRange { op_id, ended })) => end_row(op_id, &ended),
        (None, None) => lose("a range ended that had not begun"),
    }
}

/// Records a moment: a range without duration and without launches.
pub fn mark(beginning: RangeBeginning) {
    if recording().is_some() {
        begin_early();
        let mut range = OpenRange {
            beginning,
            begin_ns: session::clock_ns(),
            op_id: None,
            ended: Arc::new(AtomicBool::new(true)),
            number: None,
        };
        range.record();
        end_range(&range);
    }
}

/// Gives rows to ranges of this thread that wait for them.
pub fn begin_early() {
    if IS_WAITING.try_with(Cell::get).unwrap_or(false) && recording().is_some() {
        IS_WAITING.set(false);
        with_ranges(|ranges| {
            ranges.open.iter_mut().filter(|range| range.op_id.is_none()).for_each(OpenRange::record);
        });
    }
}

impl ThreadRanges {
    /// Ranges that are to be popped.
    fn depth(&self, order: RangeOrder) -> usize {
        let open = self.open.iter().filter(|range| range.order() == Some(order));
        open.count() + self.unrecorded.get(&order).map_or(0, |count| *count as usize)
    }

    fn begin(&mut self, beginning: RangeBeginning, number: Option<u64>) {
        // Ranges that another thread has ended.
        self.open.retain(|range| !range.ended.load(Ordering::Acquire));
        let ended = Arc::new(AtomicBool::new(false));
        let mut range = OpenRange { beginning, begin_ns: session::clock_ns(), op_id: None, ended, number };
        range.record();
        self.open.push(range);
    }
}

impl OpenRange {
    /// The ranges that it ends in order with. None where it ends by its number.
    fn order(&self) -> Option<RangeOrder> {
        self.number.is_none().then_some((self.beginning.source, self.beginning.domain))
    }

    /// Writes the row and makes the range the context of launches, where there is a session.
    fn record(&mut self) {
        let Some(torch) = recording() else {
            IS_WAITING.set(true);
            return;
        };
        let op_id = torch.take_op();
        self.op_id = Some(op_id);
        let outer = context::of_thread();
        let pystates_hash = outer.and_then(|outer| outer.pystates_hash);
        let RangeBeginning { source, domain, name, category, metrics } = &mut self.beginning;
        let metrics = std::mem::take(metrics);
        session::emit(Op {
            op_id,
            kind: OpKind::Region,
            name: cut(name).to_owned(),
            parent_op_id: outer.and_then(|outer| outer.op_id),
            thread_id: session::thread_id(),
            begin_ns: session::unix_of(self.begin_ns),
            phase: Phase::Other,
            pystates_hash,
            ..Op::default()
        });
        let domain = crate::torch::texts::text(*domain).map(str::to_owned);
        session::emit(OpRange { op_id, source: *source, domain, category: *category });
        emit_metrics(op_id, metrics);
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        context::push_range(
            OpContext { op_id: Some(op_id), pystates_hash, ..OpContext::default() },
            Arc::clone(&self.ended),
        );
        if let Some(number) = self.number {
            lock(&torch.started).insert(number, StartedRange { op_id, ended: Arc::clone(&self.ended) });
        }
    }
}

/// The session, unless it is paused.
fn recording() -> Option<&'static TorchState> {
    session::torch().filter(|_| !session::is_paused())
}

fn end_range(range: &OpenRange) {
    if let Some(op_id) = range.op_id {
        end_row(op_id, &range.ended);
    }
}

fn end_row(op_id: OpId, ended: &AtomicBool) {
    ended.store(true, Ordering::Release);
    session::emit(OpEnd { op_id, end_ns: session::now_ns() });
}

fn lose(reason: &'static str) {
    session::lose(LossKind::Op, reason, 1, None);
}

/// The first bytes of a name, whole characters.
fn cut(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default()
}

/// The ranges of this thread. Those that were open when the process was forked are the parent's. `None` in a thread that
/// is ending, or inside another call of this.
fn with_ranges<T>(act: impl FnOnce(&mut ThreadRanges) -> T) -> Option<T> {
    let act = |ranges: &RefCell<Option<ThreadRanges>>| {
        let mut ranges = ranges.try_borrow_mut().ok()?;
        let ranges = ranges.get_or_insert_default();
        if ranges.generation != session::generation() {
            *ranges = ThreadRanges { generation: session::generation(), ..ThreadRanges::default() };
        }
        Some(act(ranges))
    };
    RANGES.try_with(act).ok().flatten()
}
