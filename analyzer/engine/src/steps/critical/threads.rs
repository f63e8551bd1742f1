//! The threads that launch work: their calls, their waits, and what they do between them.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{Int64Type, UInt32Type, UInt64Type};
use datafusion::error::Result;
use stallmap_schema::word::{CopyKind, OpKind};
use stallmap_tables::column::column;

use super::model::{CriticalModel, CriticalWork, HostEvent, HostThread, PathItem};
use super::stretches::{HostSpan, stretches};
use crate::steps::read::texts;

/// Spans that are searched for one around a copy.
const MAX_LEVELS: usize = 256;

/// A call that launches work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallSpan {
    /// The thread, by index.
    pub(crate) thread: usize,
    /// Begin and end.
    pub(crate) time: (i64, i64),
}

/// Calls, waits and ops of all runs.
#[derive(Default)]
pub(crate) struct ThreadSources {
    /// Threads by run and number.
    indexes: BTreeMap<(usize, u32), usize>,
    /// The thread of each run that launches most.
    first: HashMap<usize, usize>,
    calls: HashMap<(usize, u64), CallSpan>,
    /// The thread of an op.
    ops: HashMap<u64, usize>,
    items: Vec<PathItem>,
    spans: Vec<Vec<HostSpan>>,
    waits: Vec<(usize, (i64, i64))>,
}

impl ThreadSources {
    /// Calls and ops of runs.
    pub(crate) fn from_tables(launch_run: &RecordBatch, op: &RecordBatch, runs: &[u32]) -> Result<Self> {
        let mut sources = Self { items: vec![PathItem::Call], ..Self::default() };
        let run_ids = column::<UInt32Type>(launch_run, "run_id")?;
        let kernels = column::<UInt64Type>(launch_run, "kernel_id")?;
        let threads = column::<UInt32Type>(launch_run, "thread_id")?;
        let begins = column::<Int64Type>(launch_run, "begin_ns")?;
        let ends = column::<Int64Type>(launch_run, "end_ns")?;
        let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        // A launch without the end of its call has no call.
        for row in (0..launch_run.num_rows()).filter(|row| ends.is_valid(*row)) {
            let Ok(run) = runs.binary_search(&run_ids.value(row)) else { continue };
            let thread = sources.index(run, threads.value(row));
            *counts.entry((run, thread)).or_default() += 1;
            let time = (begins.value(row), ends.value(row).max(begins.value(row)));
            sources.calls.insert((run, kernels.value(row)), CallSpan { thread, time });
        }
        let mut most: HashMap<usize, usize> = HashMap::new();
        for ((run, thread), count) in counts {
            let known = most.entry(run).or_default();
            if count > *known {
                *known = count;
                sources.first.insert(run, thread);
            }
        }
        sources.read_ops(op, runs)?;
        Ok(sources)
    }

    fn read_ops(&mut self, op: &RecordBatch, runs: &[u32]) -> Result<()> {
        let ids = column::<UInt64Type>(op, "op_id")?;
        let run_ids = column::<UInt32Type>(op, "run_id")?;
        let threads = column::<UInt32Type>(op, "thread_id")?;
        let begins = column::<Int64Type>(op, "begin_ns")?;
        let ends = column::<Int64Type>(op, "end_ns")?;
        let (names, kinds) = (texts(op, "name")?, texts(op, "kind")?);
        let mut items: HashMap<String, usize> = HashMap::new();
        let is_op = |row: usize| kinds.is_valid(row) && kinds.value(row) == OpKind::Torch.word();
        let has_ops = (0..op.num_rows()).any(is_op);
        for row in (0..op.num_rows()).filter(|row| ends.is_valid(*row) && names.is_valid(*row)) {
            let Ok(run) = runs.binary_search(&run_ids.value(row)) else { continue };
            // Threads that launch nothing are not known to hold anything up.
            let Some(thread) = self.indexes.get(&(run, threads.value(row))).copied() else { continue };
            let name = unnumbered(names.value(row));
            let item = items.get(name).copied().unwrap_or_else(|| {
                let item = self.items.len();
                self.items.push(PathItem::Host(Some(name.to_owned())));
                items.insert(name.to_owned(), item);
                item
            });
            let op_id = ids.value(row);
            self.ops.insert(op_id, thread);
            let time = (begins.value(row), ends.value(row));
            // Without ops of PyTorch, regions are parts of a framework, which wait for no thread of autograd.
            let is_region = has_ops && kinds.value(row) == OpKind::Region.word();
            let span = HostSpan { time, item, op_id: Some(op_id), is_region };
            self.spans.get_mut(thread).into_iter().for_each(|spans| spans.push(span));
        }
        Ok(())
    }

    fn index(&mut self, run: usize, number: u32) -> usize {
        let next = self.spans.len();
        let index = *self.indexes.entry((run, number)).or_insert(next);
        if index == next {
            self.spans.push(Vec::new());
        }
        index
    }

    /// The call of a kernel.
    pub(crate) fn call_of_kernel(&self, run: usize, kernel_id: u64) -> Option<CallSpan> {
        self.calls.get(&(run, kernel_id)).copied()
    }

    /// The thread of an op. Without one, that which launches most.
    pub(crate) fn thread_of(&mut self, run: usize, op: Option<u64>) -> usize {
        let known = op.and_then(|op| self.ops.get(&op)).or_else(|| self.first.get(&run)).copied();
        known.unwrap_or_else(|| {
            let index = self.index(run, 0);
            self.first.insert(run, index);
            index
        })
    }

    /// Adds a wait of the host.
    pub(crate) fn add_wait(&mut self, run: usize, time: (i64, i64)) {
        self.waits.push((run, time));
    }

    /// The program of these threads. Work stands in the order of its begins, with its calls.
    pub(crate) fn model(mut self, mut works: Vec<CriticalWork>, calls: &[Option<CallSpan>]) -> CriticalModel {
        let runs: BTreeMap<usize, usize> =
            self.indexes.iter().map(|((run, _), index)| (*index, *run)).collect();
        let mut threads: Vec<HostThread> = (0..self.spans.len())
            .map(|index| HostThread { run: runs.get(&index).copied().unwrap_or(0), ..HostThread::default() })
            .collect();
        let mut events: BTreeMap<(usize, i64, i64), HostEvent> = BTreeMap::new();
        for (index, (work, call)) in works.iter().zip(calls).enumerate() {
            let Some(call) = call else { continue };
            let (begin_ns, end_ns) = call.time;
            let event = events
                .entry((call.thread, begin_ns, end_ns))
                .or_insert(HostEvent { time: call.time, blocked_by: None });
            // A call that ends behind its work waited for it.
            let latest = event.blocked_by.and_then(|other| works.get(other)).map(|other| other.time.1);
            if work.time.1 <= end_ns && latest.is_none_or(|latest| work.time.1 > latest) {
                event.blocked_by = Some(index);
            }
        }
        for (thread, begin_ns, end_ns) in events.keys().copied() {
            let span = HostSpan { time: (begin_ns, end_ns), item: 0, op_id: None, is_region: false };
            self.spans.get_mut(thread).into_iter().for_each(|spans| spans.push(span));
        }
        self.add_waits(&works, &mut events);
        self.spans.iter_mut().for_each(|spans| spans.sort_by_key(|span| span.time));
        self.add_reads(&works, calls, &mut events);
        let mut indexes: HashMap<(usize, i64, i64), usize> = HashMap::new();
        for (key, event) in events {
            let Some(thread) = threads.get_mut(key.0) else { continue };
            indexes.insert(key, thread.events.len());
            thread.events.push(event);
        }
        for (work, call) in works.iter_mut().zip(calls) {
            work.call = call.and_then(|call| {
                Some((call.thread, *indexes.get(&(call.thread, call.time.0, call.time.1))?))
            });
        }
        for (thread, spans) in threads.iter_mut().zip(self.spans) {
            thread.stretches = stretches(spans);
            thread.find_returns();
        }
        CriticalModel { works, threads, host_items: self.items }
    }

    /// Adds recorded waits to the threads that made them: those that launched last before, and nothing meanwhile. The wait
    /// was for the last work that ended in it.
    fn add_waits(&self, works: &[CriticalWork], events: &mut BTreeMap<(usize, i64, i64), HostEvent>) {
        let mut ended: Vec<(usize, i64, usize)> =
            works.iter().enumerate().map(|(index, work)| (work.run, work.time.1, index)).collect();
        ended.sort_unstable();
        let mut added = Vec::new();
        for (run, time) in &self.waits {
            let count = ended.partition_point(|(own, end, _)| (*own, *end) <= (*run, time.1));
            let last = count.checked_sub(1).and_then(|last| ended.get(last));
            let Some((_, _, work)) = last.filter(|(own, end, _)| own == run && *end >= time.0) else {
                continue;
            };
            let own = self.indexes.iter().filter(|((own, _), _)| own == run).map(|(_, index)| *index);
            let before = own.filter_map(|thread| {
                let last = events.range(..=(thread, time.0, i64::MAX)).next_back()?;
                let next = events.range((thread, time.0 + 1, i64::MIN)..).next();
                let is_free = next.is_none_or(|((other, begin, _), _)| *other != thread || *begin >= time.1);
                (last.0.0 == thread && is_free).then_some((last.0.1, thread))
            });
            if let Some((_, thread)) = before.max() {
                let event = HostEvent { time: *time, blocked_by: Some(*work) };
                added.push(((thread, time.0, time.1), event));
            }
        }
        for (key, event) in added {
            events.entry(key).or_insert(event);
        }
    }

    /// Adds waits that no source has: a thread that copies to the host, and launches nothing before the copy has ended,
    /// reads what was copied. Where another thread makes the copy, as in JAX, the one that reads is inside of an op or
    /// region around the copy which launches nothing.
    fn add_reads(
        &self,
        works: &[CriticalWork],
        calls: &[Option<CallSpan>],
        events: &mut BTreeMap<(usize, i64, i64), HostEvent>,
    ) {
        let mut added = Vec::new();
        for (index, (work, call)) in works.iter().zip(calls).enumerate() {
            let Some(CallSpan { thread, time }) = *call else { continue };
            let is_read = work.item.name() == Some(CopyKind::DeviceToHost.word())
                && matches!(work.item, PathItem::Copy(_));
            if !is_read {
                continue;
            }
            if work.time.1 > time.1 && is_free(events, thread, (time.1, work.time.1), time) {
                added.push(((thread, time.1, work.time.1), index));
            }
            let others =
                self.indexes.iter().filter(|((run, _), other)| *run == work.run && **other != thread);
            for other in others.map(|(_, other)| *other) {
                if self
                    .around(other, (time.0, work.time.1))
                    .is_some_and(|span| is_free(events, other, span, (span.0, span.0)))
                {
                    added.push(((other, work.time.0.max(time.0), work.time.1), index));
                }
            }
        }
        for (key, work) in added {
            events.entry(key).or_insert(HostEvent { time: (key.1, key.2), blocked_by: Some(work) });
        }
    }

    /// The innermost op or region of a thread around a stretch of time.
    fn around(&self, thread: usize, time: (i64, i64)) -> Option<(i64, i64)> {
        let spans = self.spans.get(thread)?;
        let begun = spans.partition_point(|span| span.time.0 <= time.0);
        let recent = spans.get(..begun)?.iter().rev().take(MAX_LEVELS);
        recent.map(|span| span.time).find(|span| span.1 >= time.1)
    }
}

/// True if a thread begins no call in a stretch of time, apart from one.
fn is_free(
    events: &BTreeMap<(usize, i64, i64), HostEvent>,
    thread: usize,
    time: (i64, i64),
    but: (i64, i64),
) -> bool {
    let within = events.range((thread, time.0.min(but.0), i64::MIN)..=(thread, time.1, i64::MAX));
    within.into_iter().all(|(_, event)| event.time == but || event.time.0 >= time.1 || event.time.0 < time.0)
}

/// A name without the number behind it, as of `ProfilerStep#7`.
fn unnumbered(name: &str) -> &str {
    match name.rsplit_once("#step_num=").or_else(|| name.rsplit_once('#')) {
        Some((base, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            base
        }
        _ => name,
    }
}
