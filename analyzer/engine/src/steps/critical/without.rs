//! A step once more, without an item: all times again, in the order in which they were, by the same causes.
//!
//! The cause that decided keeps its measured distance. All other causes of the same work count with the usual distance, or
//! the measured one if that is less. So nothing moves where nothing is left out.

use std::collections::HashMap;

use super::causes::CauseTable;
use super::model::{CriticalModel, PathItem, StepWindow};
use super::walk::came_from;

/// An event of a step. Ends come before begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StepMoment {
    WorkEnd(usize),
    Return(usize, usize),
    EventBegin(usize, usize),
    WorkBegin(usize),
    /// The end of work that takes no time.
    EmptyEnd(usize),
    EmptyReturn(usize, usize),
}

/// A thread's last moment with a new time.
#[derive(Clone, Copy, Debug)]
struct ThreadAnchor {
    old_ns: i64,
    new_ns: i64,
}

/// Everything that happens in a step, once for all items.
pub(crate) struct StepReplay<'a> {
    model: &'a CriticalModel,
    causes: &'a CauseTable,
    window: StepWindow,
    moments: Vec<(i64, StepMoment)>,
    /// The thread that the thread of an event waited for before it, and since when.
    came: HashMap<(usize, usize), (i64, usize)>,
}

/// New times while a step is replayed.
struct ReplayTimes<'a> {
    replay: &'a StepReplay<'a>,
    item: &'a PathItem,
    begins: HashMap<usize, i64>,
    ends: HashMap<usize, i64>,
    /// Begins of calls and waits, by thread and event.
    calls: HashMap<(usize, usize), i64>,
    anchors: Vec<ThreadAnchor>,
}

impl<'a> StepReplay<'a> {
    /// Everything in a step.
    pub(crate) fn new(model: &'a CriticalModel, causes: &'a CauseTable, window: StepWindow) -> Self {
        let (from, upto) = window.time;
        let is_in = |ns: i64| ns > from && ns <= upto;
        let mut moments = Vec::new();
        let first = model.works.partition_point(|work| work.time.0 < from);
        for (index, work) in model.works.iter().enumerate().skip(first) {
            if work.time.0 > upto {
                break;
            }
            moments.push((work.time.0, StepMoment::WorkBegin(index)));
            if is_in(work.time.1) {
                let is_empty = work.time.1 == work.time.0;
                let end = if is_empty { StepMoment::EmptyEnd(index) } else { StepMoment::WorkEnd(index) };
                moments.push((work.time.1, end));
            }
        }
        let mut came = HashMap::new();
        for (at, thread) in model.threads.iter().enumerate() {
            let first = thread.events.partition_point(|event| event.time.0 <= from);
            let mut before_ns = from;
            for (number, event) in thread.events.iter().enumerate().skip(first) {
                if event.time.0 > upto {
                    break;
                }
                moments.push((event.time.0, StepMoment::EventBegin(at, number)));
                if event.blocked_by.is_some() && is_in(event.time.1) {
                    let is_empty = event.time.1 == event.time.0;
                    let index = (at, number);
                    let end = if is_empty {
                        StepMoment::EmptyReturn(index.0, index.1)
                    } else {
                        StepMoment::Return(index.0, index.1)
                    };
                    moments.push((event.time.1, end));
                }
                if let Some(found) = came_from(model, at, before_ns, event.time.0) {
                    came.insert((at, number), found);
                }
                before_ns = if event.blocked_by.is_some() { event.time.1 } else { event.time.0 };
            }
        }
        moments.sort_unstable();
        Self { model, causes, window, moments, came }
    }

    /// Moments that are computed for an item.
    pub(crate) fn moments(&self) -> usize {
        self.moments.len()
    }

    /// The length of the step without an item.
    pub(crate) fn duration_without(&self, item: &PathItem) -> i64 {
        let (from, upto) = self.window.time;
        let anchors = vec![ThreadAnchor { old_ns: from, new_ns: from }; self.model.threads.len()];
        let (begins, ends, calls) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut times = ReplayTimes { replay: self, item, begins, ends, calls, anchors };
        for (_, moment) in &self.moments {
            times.take(*moment);
        }
        let ends = times.ends.iter().filter(|(index, _)| {
            let work = self.model.works.get(**index);
            work.is_some_and(|work| work.run == self.window.run && work.time.1 <= upto)
        });
        ends.map(|(_, end)| *end).max().unwrap_or(upto).max(from) - from
    }
}

impl ReplayTimes<'_> {
    fn take(&mut self, moment: StepMoment) {
        match moment {
            StepMoment::EventBegin(thread, event) => self.event(thread, event),
            StepMoment::Return(thread, event) | StepMoment::EmptyReturn(thread, event) => {
                self.returned(thread, event);
            }
            StepMoment::WorkBegin(index) => self.begin(index),
            StepMoment::WorkEnd(index) | StepMoment::EmptyEnd(index) => self.end(index),
        }
    }

    /// The new time of a moment of a thread.
    fn thread_ns(&self, at: usize, old_ns: i64) -> i64 {
        let Some(anchor) = self.anchors.get(at) else { return old_ns };
        anchor.new_ns + (old_ns - anchor.old_ns) - self.left_out(at, anchor.old_ns, old_ns)
    }

    /// The time of a thread that the item took.
    fn left_out(&self, at: usize, from_ns: i64, upto_ns: i64) -> i64 {
        let model = self.replay.model;
        if upto_ns <= from_ns || !matches!(self.item, PathItem::Host(_) | PathItem::Call) {
            return 0;
        }
        let Some(thread) = model.threads.get(at) else { return 0 };
        let first = thread.stretch_at(from_ns);
        // In front of the first stretch, a thread runs code that no op has.
        let lead_ns = match (first, self.item) {
            (None, PathItem::Host(None)) => {
                let end = thread.stretches.first().map_or(upto_ns, |stretch| stretch.begin_ns.min(upto_ns));
                end - from_ns
            }
            _ => 0,
        };
        let mut sum = lead_ns;
        let stretches = thread.stretches.get(first.unwrap_or(0)..).unwrap_or_default();
        for (number, stretch) in stretches.iter().enumerate() {
            if stretch.begin_ns >= upto_ns {
                break;
            }
            let end_ns = stretches.get(number + 1).map_or(upto_ns, |next| next.begin_ns.min(upto_ns));
            let item = stretch.item.and_then(|item| model.host_items.get(item));
            if item.unwrap_or(&PathItem::Host(None)) == self.item {
                sum += end_ns - stretch.begin_ns.max(from_ns);
            }
        }
        sum
    }

    fn anchor(&mut self, at: usize, old_ns: i64, new_ns: i64) {
        if let Some(anchor) = self.anchors.get_mut(at) {
            *anchor = ThreadAnchor { old_ns, new_ns };
        }
    }

    fn event(&mut self, at: usize, number: usize) {
        let thread = self.replay.model.threads.get(at);
        let Some(event) = thread.and_then(|thread| thread.events.get(number)) else { return };
        let old_ns = event.time.0;
        let new_ns = match self.replay.came.get(&(at, number)) {
            // The thread goes on when the other one has come to rest.
            Some((rest_ns, other)) => {
                let left_ns = self.left_out(at, *rest_ns, old_ns);
                self.thread_ns(*other, *rest_ns) + (old_ns - rest_ns) - left_ns
            }
            None => self.thread_ns(at, old_ns),
        };
        self.calls.insert((at, number), new_ns);
        self.anchor(at, old_ns, new_ns);
    }

    /// The end of an event that waited for work: then, or when the thread comes to it.
    fn returned(&mut self, at: usize, number: usize) {
        let model = self.replay.model;
        let Some(event) = model.threads.get(at).and_then(|thread| thread.events.get(number)) else { return };
        let Some(work) = event.blocked_by else { return };
        let ended_ns = model.works.get(work).map_or(event.time.1, |work| work.time.1);
        let wake_ns = if *self.item == PathItem::Return { 0 } else { event.time.1 - ended_ns };
        let began_ns = self.calls.get(&(at, number)).copied().unwrap_or(event.time.0);
        self.anchor(at, event.time.1, began_ns.max(self.ended_ns(work) + wake_ns));
    }

    /// The new end of work. Work that ended before the step keeps its end. Of work that still runs, it is that of its
    /// length: the next on a stream can begin before the end of the one before.
    fn ended_ns(&self, index: usize) -> i64 {
        if let Some(end_ns) = self.ends.get(&index) {
            return *end_ns;
        }
        let Some(work) = self.replay.model.works.get(index) else { return 0 };
        let length_ns = if work.item == *self.item { 0 } else { work.time.1 - work.time.0 };
        self.begins.get(&index).map_or(work.time.1, |begin_ns| begin_ns + length_ns)
    }

    fn begin(&mut self, index: usize) {
        let StepReplay { model, causes, .. } = self.replay;
        let Some(work) = model.works.get(index) else { return };
        let cause = causes.cause(index);
        let begin_ns = work.time.0;
        let end = |index: usize| model.works.get(index).map(|before| before.time.1.min(begin_ns));
        let call = CauseTable::call_ns(model, index).zip(work.call);
        let before = cause.before.and_then(|before| Some((end(before)?, before)));
        let other = cause.other.and_then(|other| Some((end(other)?, other)));
        let latest = before.map(|(end, _)| end).max(other.map(|(end, _)| end));
        let is_launched = call.is_some_and(|(call_ns, _)| latest.is_none_or(|end| end <= call_ns));
        let distance = |from_ns: i64, decides: bool, usual_ns: i64, item: &PathItem| {
            let measured = begin_ns - from_ns;
            let counted = if decides { measured } else { measured.min(usual_ns) };
            if self.item == item { counted.min(0) } else { counted }
        };
        let mut new_ns = i64::MIN;
        if let Some((call_ns, event)) = call {
            let gap_ns = distance(call_ns, is_launched, causes.launch_ns, &PathItem::Launch);
            // A call from before the step keeps its time. Work cannot begin before its call, other than by the clocks.
            let old_ns = model.threads.get(event.0).and_then(|thread| thread.events.get(event.1));
            let ahead_ns = old_ns.map_or(0, |old| old.time.0 - call_ns);
            new_ns = self.calls.get(&event).map_or(call_ns, |new| new - ahead_ns) + gap_ns;
        }
        for (end_ns, before) in before.into_iter().chain(other) {
            let decides = !is_launched && latest == Some(end_ns);
            let gap_ns = distance(end_ns, decides, causes.handover_ns, &PathItem::Handover);
            let moved_ns = match model.works.get(before) {
                Some(before) if before.item != *self.item => end_ns - before.time.1,
                _ => 0,
            };
            new_ns = new_ns.max(self.ended_ns(before) + moved_ns + gap_ns);
        }
        self.begins.insert(index, if new_ns == i64::MIN { begin_ns } else { new_ns });
    }

    fn end(&mut self, index: usize) {
        let StepReplay { model, causes, .. } = self.replay;
        let Some(work) = model.works.get(index) else { return };
        let begin = |index: usize| {
            let old = model.works.get(index).map_or(0, |work| work.time.0);
            (old, self.begins.get(&index).copied().unwrap_or(old))
        };
        let own = begin(index);
        // A collective moves data from the begin of the last rank on.
        let ranks = work.match_id.and_then(|number| causes.matches.get(&number));
        let ranks = ranks.into_iter().flatten().map(|other| begin(*other));
        let ranks = ranks.filter(|(old, _)| *old < work.time.1).chain([own]);
        let (old, new) = ranks.fold((i64::MIN, i64::MIN), |all, one| (all.0.max(one.0), all.1.max(one.1)));
        // One that takes no time still waits for all ranks.
        let length_ns = if work.item == *self.item { 0 } else { work.time.1 - old };
        self.ends.insert(index, new + length_ns);
    }
}
