//! Functions that Python calls. [`super`] documents them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stallmap_config::PassInstrument;
use stallmap_schema::id::{Address, OpId, PystatesHash};
use stallmap_schema::tables::tensor::OpRange;
use stallmap_schema::word::{LossKind, OpKind, RangeSource};

use super::allocator_hook;
use super::compiled;
use super::message::{
    MalformedMessage, OpBeginning, OpEnding, RangeOpening, RegionMetrics, SOURCES, TensorRole,
};
use super::ops::{self, RunningOp};
use super::recorded::{EventMoment, RecordedRow, send};
use super::states::PythonStates;
use super::storages::LiveStorages;
use super::texts;
use crate::context::{self, OpContext};
use crate::ranges::{self, RangeBeginning, StartedRanges};
use crate::session;

/// Version of the interface.
pub const ABI_VERSION: u32 = 5;

/// True if the allocator reports its events, in this process and in those that are forked from it.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Facts of a session about PyTorch.
pub(crate) struct TorchState {
    states: Mutex<PythonStates>,
    storages: Mutex<LiveStorages>,
    pub(crate) started: Mutex<StartedRanges>,
    last_op: AtomicU64,
}

impl TorchState {
    /// The number of the next op or region.
    pub(crate) fn take_op(&self) -> OpId {
        OpId(self.last_op.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Default for TorchState {
    fn default() -> Self {
        let mut storages = LiveStorages::default();
        if IS_REPORTED.load(Ordering::Acquire) {
            storages.set_reported();
        }
        Self {
            states: Mutex::default(),
            storages: Mutex::new(storages),
            started: Mutex::default(),
            last_op: AtomicU64::new(0),
        }
    }
}

thread_local! {
    static RUNNING: RefCell<(usize, RunningStack)> = const { RefCell::new((0, Vec::new())) };
}

type RunningStack = Vec<(RunningOp, Option<&'static str>)>;

/// An event of the caching allocator: bytes given out, or taken back where negative.
pub(super) fn allocator_event(device_id: i32, address: Address, bytes: i64) {
    if session::config().is_none_or(|config| config.instrument != PassInstrument::Accesses) {
        return;
    }
    let Some(torch) = session::torch() else { return };
    let (now, mut rows) = (EventMoment::now(), Vec::new());
    let mut storages = lock(&torch.storages);
    if bytes >= 0 {
        storages.allocated(device_id, address, bytes.unsigned_abs(), now, &mut rows);
    } else {
        storages.freed(address, now, &mut rows);
    }
    // Sent under the lock: a block's free is then written before its next lifetime.
    send(rows);
}

/// The storage that lives at an address: its first address and bytes.
pub fn storage_at(address: u64) -> Option<(u64, u64)> {
    lock(&session::torch()?.storages).block_at(address)
}

/// The storages that are alive, by address: first address and bytes.
pub fn storages() -> Vec<(u64, u64)> {
    session::torch().map_or_else(Vec::new, |torch| lock(&torch.storages).blocks().collect())
}

/// Mode of the recording. Starts the session where `start` is true.
pub fn mode(start: bool) -> u32 {
    const NEVER: u32 = 8;
    if session::is_forked_after_cuda() {
        return NEVER;
    }
    if start {
        session::start();
    }
    let Some(config) = session::config().filter(|config| config.python) else { return 0 };
    let has_tensors = config.instrument == PassInstrument::Accesses;
    1 | (u32::from(has_tensors) << 1) | (u32::from(config.selection.paused) << 2)
}

/// Records a stack. Returns its hash.
pub fn state(stack: &str) -> i64 {
    self::stack(stack).map_or(0, |hash| hash.0.cast_signed())
}

/// Records a stack. `None` where it cannot be read, which is counted.
pub(crate) fn stack(stack: &str) -> Option<PystatesHash> {
    let torch = session::torch()?;
    let mut rows = Vec::new();
    let hash = lock(&torch.states).record(stack, &mut rows);
    if hash.is_none() {
        session::lose(LossKind::Op, "Python sent a stack that cannot be read", 1, Some(stack.to_owned()));
    }
    send(rows);
    hash
}

/// Records the operations that the kernel of a line of generated code computes.
pub fn origins(origins: &str) {
    send_or_lose(compiled::origins(origins), "Python sent origins that cannot be read", origins);
}

/// Records a compiled version of a Triton kernel.
pub fn triton_kernel(kernel: &str) {
    send_or_lose(compiled::kernel(kernel), "Python sent a kernel that cannot be read", kernel);
}

fn send_or_lose(rows: Option<Vec<RecordedRow>>, reason: &'static str, text: &str) {
    match rows {
        Some(rows) if session::torch().is_some() => send(rows),
        Some(_) => {}
        None => session::lose(LossKind::Op, reason, 1, Some(text.to_owned())),
    }
}

/// Begins an op or region. Returns its identifier.
pub fn op_begin(words: &[i64]) -> i64 {
    let Some(torch) = session::torch() else { return 0 };
    let Ok(message) = OpBeginning::read(words) else {
        session::lose(LossKind::Op, "Python sent an op that cannot be read", 1, None);
        return 0;
    };
    let op_id = torch.take_op();
    let (now, mut rows) = (EventMoment::now(), Vec::new());
    let running = {
        let mut storages = lock(&torch.storages);
        let running = ops::begin(op_id, session::thread_id(), &message, now, &mut storages, &mut rows);
        send(rows);
        running
    };
    let region = match message.kind {
        OpKind::Region => Some(message.name),
        OpKind::Tuning => Some(context::TUNING_REGION),
        _ => None,
    };
    if let Some(region) = region {
        context::region_enter(region);
    }
    if message.kind == OpKind::Region {
        session::emit(OpRange { op_id, source: RangeSource::Stallmap, domain: None, category: None });
    }
    // Every op comes through here.
    let asks = session::config().is_some_and(|config| config.bundles.is_some() || config.counts());
    let shapes_hash = if asks { message.shapes_hash() } else { 0 };
    let context = OpContext {
        op_id: Some(op_id),
        pystates_hash: message.pystates_hash,
        shapes_hash,
        native_stack: None,
    };
    if region.is_some() {
        context::push_region(context);
    } else {
        context::push(context);
    }
    if with_running(|stack| stack.push((running, region))).is_none() {
        session::lose_region();
    }
    op_id.0.cast_signed()
}

/// Ends an op or region.
pub fn op_end(words: &[i64]) {
    let Some(torch) = session::torch() else { return };
    let Ok(message) = OpEnding::read(words) else {
        session::lose(LossKind::Op, "Python sent an op's end that cannot be read", 1, None);
        return;
    };
    context::pop(message.op_id);
    let Some((running, region)) = take_running(message.op_id) else {
        session::lose(LossKind::Op, "an op ended on a thread that it did not begin on", 1, None);
        return;
    };
    if let Some(region) = region {
        context::region_exit(region);
    }
    let (now, mut rows) = (EventMoment::now(), Vec::new());
    let mut storages = lock(&torch.storages);
    ops::end(running, &message, now, &mut storages, &mut rows);
    send(rows);
}

/// The running op, with every op that began after it on this thread and never ended dropped.
fn take_running(op_id: OpId) -> Option<(RunningOp, Option<&'static str>)> {
    with_running(|stack| {
        let at = stack.iter().rposition(|(running, _)| running.op_id == op_id)?;
        stack.truncate(at + 1);
        stack.pop()
    })
    .flatten()
}

/// The ops that run on this thread. Those that ran when the process was forked are the parent's. `None` in a thread that
/// is ending: its memory is gone.
fn with_running<T>(act: impl FnOnce(&mut RunningStack) -> T) -> Option<T> {
    let act = |running: &RefCell<(usize, RunningStack)>| {
        let (generation, stack) = &mut *running.borrow_mut();
        if *generation != session::generation() {
            *generation = session::generation();
            stack.clear();
        }
        act(stack)
    };
    RUNNING.try_with(act).ok()
}

/// Begins a range of this thread.
pub fn range_push(words: &[i64]) {
    match RangeOpening::read(words) {
        Ok(RangeOpening { source, name, metrics }) => {
            let name = name.to_owned();
            ranges::push(RangeBeginning { source, domain: 0, name, category: None, metrics });
        }
        Err(MalformedMessage) => {
            session::lose(LossKind::Op, "Python sent a range that cannot be read", 1, None);
        }
    }
}

/// Ends the innermost range of this thread and a source.
pub fn range_pop(source: u32) {
    if let Some(&source) = usize::try_from(source).ok().and_then(|source| SOURCES.get(source)) {
        ranges::pop(source, 0);
    }
}

/// Gives numbers to a region.
pub fn metrics(words: &[i64]) {
    match RegionMetrics::read(words) {
        Ok(RegionMetrics { op_id, metrics }) => ranges::emit_metrics(op_id, metrics),
        Err(MalformedMessage) => {
            session::lose(LossKind::Op, "Python sent a number that cannot be read", 1, None);
        }
    }
}

/// Names tensors.
pub fn name(words: &[i64]) {
    let Some(torch) = session::torch() else { return };
    let Ok(names) = TensorRole::read_all(words) else {
        session::lose(LossKind::Tensor, "Python sent names that cannot be read", 1, None);
        return;
    };
    let (now, mut rows) = (EventMoment::now(), Vec::new());
    let mut storages = lock(&torch.storages);
    for name in &names {
        storages.name(name, now, &mut rows);
    }
    send(rows);
}

/// Records a fact about the run.
pub fn fact(name: i64, value: i64) {
    const NAMES: [&str; 2] = ["python_version", "torch_version"];
    let name = texts::text(name).and_then(|name| NAMES.into_iter().find(|&known| known == name));
    if let (Some(name), Some(value)) = (name, texts::text(value)) {
        session::fact(name, value.to_owned());
    }
}

/// Counts a loss.
pub fn lose(kind: u32, reason: i64, count: u64, detail: i64) {
    let kind = match kind {
        0 => LossKind::Op,
        1 => LossKind::Tensor,
        _ => LossKind::Source,
    };
    let reason = texts::text(reason).unwrap_or("Python gave no reason");
    session::lose(kind, reason, count, texts::text(detail).map(str::to_owned));
}

/// Hooks the caching allocator. Returns the number of places.
pub fn hook_allocator() -> i64 {
    let entries = allocator_hook::install();
    if entries > 0 {
        IS_REPORTED.store(true, Ordering::Release);
        if let Some(torch) = session::torch() {
            lock(&torch.storages).set_reported();
        }
    }
    i64::try_from(entries).unwrap_or(i64::MAX)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
