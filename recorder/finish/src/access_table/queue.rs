//! The queue of work: any number of threads take tasks from it, and one takes the row groups, in order.
//!
//! While some threads write the parts of a launch, others read the next one. What is held stays bounded: entries of
//! large launches, and row groups that wait for those before them. The oldest unit is never held back, so work goes on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use stallmap_write::encoding::ROW_GROUP_ROWS;
use stallmap_write::{GroupEncoder, RowGroup};

use super::large::{LargeLaunch, LargeStep};
use super::units::LaunchUnit;
use crate::error::FinishError;
use stallmap_write::requests::{
    ConversionLimits, ConversionMemory, ConvertedLaunch, LaunchSource, convert_small,
};

/// Bytes of row groups that wait for those before them.
const WAITING_BYTES: u64 = 192 << 20;
/// Units that have begun.
const MAX_BEGUN: usize = 256;

/// Work, and what became of it.
pub(super) struct UnitQueue<'a> {
    units: &'a [LaunchUnit],
    sources: &'a [LaunchSource<'a>],
    encoder: Arc<GroupEncoder>,
    limits: ConversionLimits,
    state: Mutex<QueueState<'a>>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState<'a> {
    /// Units that are complete and taken.
    taken: usize,
    /// The units behind those that have begun.
    begun: VecDeque<BegunUnit<'a>>,
    waiting_bytes: u64,
    held_bytes: u64,
    failure: Option<FinishError>,
    is_stopped: bool,
}

/// A unit that has begun.
struct BegunUnit<'a> {
    /// Row groups that wait, by part.
    groups: BTreeMap<usize, Vec<RowGroup>>,
    /// Parts that were taken.
    taken: usize,
    large: Option<LargeLaunch<'a>>,
    held_bytes: u64,
    /// The number of parts, and the counts of the launches, once all is done.
    end: Option<(usize, Vec<ConvertedLaunch>)>,
}

enum UnitTask<'a> {
    Small { unit: usize, launches: &'a [LaunchSource<'a>] },
    Large { unit: usize, step: LargeStep<'a> },
}

/// The next rows of the table.
pub(super) enum NextRows {
    /// Row groups.
    Groups(Vec<RowGroup>),
    /// The end of a unit, with the counts of its launches.
    Unit(LaunchUnit, Vec<ConvertedLaunch>),
    /// The end of the table.
    End,
}

impl<'a> UnitQueue<'a> {
    pub(super) fn new(
        units: &'a [LaunchUnit],
        sources: &'a [LaunchSource<'a>],
        encoder: Arc<GroupEncoder>,
        limits: ConversionLimits,
    ) -> Self {
        Self { units, sources, encoder, limits, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Does tasks until none is left.
    pub(super) fn work(&self) {
        let _stop = StopOnPanic(self);
        let mut memory = ConversionMemory::default();
        let mut state = self.lock();
        while !self.is_done(&state) {
            let Some(task) = self.take(&mut state) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            self.execute(task, &mut memory);
            state = self.lock();
        }
    }

    /// Waits for what is next in the table. Where `works`, this thread does the tasks itself.
    pub(super) fn next(&self, works: bool) -> Result<NextRows, FinishError> {
        let mut memory = works.then(ConversionMemory::default);
        let mut state = self.lock();
        loop {
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.is_stopped {
                return Err(FinishError::Stopped);
            }
            if let Some(next) = self.ready(&mut state) {
                self.changed.notify_all();
                return Ok(next);
            }
            let task = memory.as_ref().and_then(|_| self.take(&mut state));
            match task.zip(memory.as_mut()) {
                Some((task, memory)) => {
                    drop(state);
                    self.execute(task, memory);
                    state = self.lock();
                }
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Lets all threads end.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_done(&self, state: &QueueState<'a>) -> bool {
        let all_begun = state.taken + state.begun.len() == self.units.len();
        state.is_stopped || all_begun && state.begun.iter().all(|begun| begun.end.is_some())
    }

    fn ready(&self, state: &mut QueueState<'a>) -> Option<NextRows> {
        let Some(begun) = state.begun.front_mut() else {
            return (state.taken == self.units.len()).then_some(NextRows::End);
        };
        if let Some(groups) = begun.groups.remove(&begun.taken) {
            begun.taken += 1;
            state.waiting_bytes -= bytes(&groups);
            return Some(NextRows::Groups(groups));
        }
        begun.end.as_ref().filter(|(parts, _)| *parts == begun.taken)?;
        let (_, converted) = state.begun.pop_front()?.end?;
        let unit = self.units.get(state.taken)?.clone();
        state.taken += 1;
        Some(NextRows::Unit(unit, converted))
    }

    /// The next task, of the oldest unit that has one.
    fn take(&self, state: &mut QueueState<'a>) -> Option<UnitTask<'a>> {
        let is_full = state.waiting_bytes > WAITING_BYTES;
        let reach = if is_full { 1 } else { usize::MAX };
        let first = state.taken;
        for (begun, unit) in state.begun.iter_mut().zip(first..).take(reach) {
            if let Some(step) = begun.large.as_mut().and_then(LargeLaunch::step) {
                return Some(UnitTask::Large { unit, step });
            }
        }
        if !state.begun.is_empty() && (is_full || state.begun.len() == MAX_BEGUN) {
            return None;
        }
        self.begin(state)
    }

    /// Begins the next unit, unless too much is held.
    fn begin(&self, state: &mut QueueState<'a>) -> Option<UnitTask<'a>> {
        let unit = state.taken + state.begun.len();
        let mut begun =
            BegunUnit { groups: BTreeMap::new(), taken: 0, large: None, held_bytes: 0, end: None };
        let task = match self.units.get(unit)? {
            LaunchUnit::Small(launches) => {
                UnitTask::Small { unit, launches: self.sources.get(launches.clone())? }
            }
            LaunchUnit::Large(launch) => {
                let source = self.sources.get(*launch)?;
                begun.held_bytes = source.raw_bytes().min(self.limits.held_bytes);
                if state.held_bytes > 0 && state.held_bytes + begun.held_bytes > self.limits.held_bytes {
                    return None;
                }
                state.held_bytes += begun.held_bytes;
                let mut large = LargeLaunch::new(*source, self.limits);
                let step = large.step()?;
                begun.large = Some(large);
                UnitTask::Large { unit, step }
            }
        };
        state.begun.push_back(begun);
        Some(task)
    }

    fn execute(&self, task: UnitTask<'a>, memory: &mut ConversionMemory) {
        let done = match task {
            UnitTask::Small { unit, launches } => self.small(unit, launches, memory),
            UnitTask::Large { unit, step } => self.large(unit, step, memory),
        };
        if let Err(failure) = done {
            let mut state = self.lock();
            state.failure.get_or_insert(failure);
            state.is_stopped = true;
        }
        self.changed.notify_all();
    }

    fn small(
        &self,
        unit: usize,
        launches: &[LaunchSource<'_>],
        memory: &mut ConversionMemory,
    ) -> Result<(), FinishError> {
        let (converted, batch) = convert_small(launches, memory)?;
        let groups = self.encode(&batch)?;
        self.update(unit, |begun| {
            begun.groups.insert(0, groups);
            begun.end = Some((1, converted));
        });
        Ok(())
    }

    fn large(
        &self,
        unit: usize,
        step: LargeStep<'a>,
        memory: &mut ConversionMemory,
    ) -> Result<(), FinishError> {
        match step {
            LargeStep::Read(read) => {
                let piece = read.piece(memory);
                let mut all = None;
                self.update(unit, |begun| all = begun.large.as_mut().and_then(|large| large.add(piece)));
                if let Some(pass) = all {
                    let ended = pass.end();
                    self.update(unit, |begun| {
                        if let Some(large) = &mut begun.large {
                            large.go_on(ended);
                        }
                        begun.settle();
                    });
                }
            }
            LargeStep::Write(write) => {
                let (part, groups) = (write.part, self.encode(&write.batch(memory)?)?);
                drop(write);
                self.update(unit, |begun| {
                    begun.groups.insert(part, groups);
                    if let Some(large) = &mut begun.large {
                        large.wrote();
                    }
                    begun.settle();
                });
            }
        }
        Ok(())
    }

    /// Changes a unit that has begun, and counts what is held.
    fn update(&self, unit: usize, change: impl FnOnce(&mut BegunUnit<'a>)) {
        let mut state = self.lock();
        let at = unit - state.taken;
        let Some(begun) = state.begun.get_mut(at) else { return };
        let before = (begun.waiting_bytes(), begun.held_bytes);
        change(begun);
        let after = (begun.waiting_bytes(), begun.held_bytes);
        state.waiting_bytes = state.waiting_bytes + after.0 - before.0;
        state.held_bytes = state.held_bytes + after.1 - before.1;
    }

    /// Row groups of about equal length.
    fn encode(&self, batch: &RecordBatch) -> Result<Vec<RowGroup>, FinishError> {
        let rows = batch.num_rows();
        let groups = rows.div_ceil(ROW_GROUP_ROWS);
        let encode = |group| {
            let (from, to) = (rows * group / groups, rows * (group + 1) / groups);
            Ok(self.encoder.encode(&[batch.slice(from, to - from)])?)
        };
        (0..groups).map(encode).collect()
    }
}

impl BegunUnit<'_> {
    fn waiting_bytes(&self) -> u64 {
        self.groups.values().map(|groups| bytes(groups)).sum()
    }

    /// Ends a large launch after its last pass.
    fn settle(&mut self) {
        if let Some(end) = self.large.as_mut().and_then(LargeLaunch::end) {
            self.end = Some(end);
            self.large = None;
            self.held_bytes = 0;
        }
    }
}

fn bytes(groups: &[RowGroup]) -> u64 {
    groups.iter().map(RowGroup::bytes).sum()
}

/// Lets all threads end where one panics: all other threads would wait for it.
struct StopOnPanic<'q, 'a>(&'q UnitQueue<'a>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
