//! The path itself: from the end of a step back to its begin, each time to what the work or the thread waited for last.
//!
//! Pieces of a path follow each other without a gap, so their times add up to that of the step.

use super::causes::CauseTable;
use super::model::{CriticalModel, HostThread, PathItem, StepWindow};

/// A thread is not taken for one that waits for another thread if it rests for less.
const MIN_REST_NS: i64 = 2_000;
/// Work without a call that begins later than so many usual times behind other work did not follow it.
const MAX_UNEXPLAINED: i64 = 10;
/// Moves of a walk, per piece of work and call: a walk that goes on longer goes in a circle.
const MAX_MOVES: usize = 8;

/// One piece of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPiece {
    /// The run in which it is, by index.
    pub(crate) run: usize,
    /// Begin and end.
    pub(crate) time: (i64, i64),
    /// The item that it is charged to.
    pub(crate) item: PathItem,
    /// The work: that which runs, or which follows a launch, a handover or a wait.
    pub(crate) work: Option<usize>,
    /// The op of a piece of the host.
    pub(crate) op_id: Option<u64>,
    /// The launch that a piece of the host leads to.
    pub(crate) kernel_id: Option<u64>,
    /// Why the path goes on with the piece behind it: stream, launch, inferred, wait, thread, rank, order or end.
    pub(crate) relation: &'static str,
}

/// The state of a walk.
#[derive(Clone, Copy, Debug)]
enum WalkState {
    /// At a moment of a piece of work.
    Work(usize),
    /// On a thread, on the way to a launch.
    Thread(usize, Option<u64>),
    Done,
}

/// The walk through one step.
pub(crate) struct PathWalk<'a> {
    model: &'a CriticalModel,
    causes: &'a CauseTable,
    floor_ns: i64,
    now_ns: i64,
    relation: &'static str,
    pieces: Vec<PathPiece>,
}

impl<'a> PathWalk<'a> {
    /// The path of a step, in the order of time.
    pub(crate) fn path(
        model: &'a CriticalModel,
        causes: &'a CauseTable,
        window: StepWindow,
    ) -> Vec<PathPiece> {
        let (floor_ns, now_ns) = window.time;
        let mut walk = Self { model, causes, floor_ns, now_ns, relation: "end", pieces: Vec::new() };
        let last = causes.ended(window.run, now_ns).next().filter(|(end, _)| *end > floor_ns);
        let mut state = last.map_or(WalkState::Done, |(_, index)| WalkState::Work(index));
        let calls: usize = model.threads.iter().map(|thread| thread.events.len()).sum();
        for _ in 0..MAX_MOVES * (model.works.len() + calls + 1) {
            if walk.now_ns <= walk.floor_ns {
                break;
            }
            state = match state {
                WalkState::Work(index) => walk.work(index),
                WalkState::Thread(thread, kernel_id) => walk.thread(thread, kernel_id),
                WalkState::Done => break,
            };
        }
        if walk.now_ns > walk.floor_ns {
            walk.add(walk.floor_ns, window.run, PathItem::Unknown, None, (None, None));
        }
        walk.pieces.reverse();
        walk.pieces
    }

    /// Adds the piece from a moment to now.
    fn add(
        &mut self,
        begin_ns: i64,
        run: usize,
        item: PathItem,
        work: Option<usize>,
        (op_id, kernel_id): (Option<u64>, Option<u64>),
    ) {
        let begin_ns = begin_ns.clamp(self.floor_ns, self.now_ns);
        if begin_ns < self.now_ns {
            let relation = std::mem::replace(&mut self.relation, "order");
            let time = (begin_ns, self.now_ns);
            self.pieces.push(PathPiece { run, time, item, work, op_id, kernel_id, relation });
            self.now_ns = begin_ns;
        }
    }

    /// Goes through a piece of work to what it waited for.
    fn work(&mut self, index: usize) -> WalkState {
        let Some(work) = self.model.works.get(index) else { return WalkState::Done };
        if let Some(last) = self.last_rank(index) {
            let begin_ns = self.model.works.get(last).map_or(work.time.0, |last| last.time.0);
            self.add(begin_ns, work.run, work.item.clone(), Some(index), (None, work.kernel_id));
            self.relation = "rank";
            return self.before(last);
        }
        self.add(work.time.0, work.run, work.item.clone(), Some(index), (None, work.kernel_id));
        self.before(index)
    }

    /// The work of the rank that came last to a collective, if it is another one.
    fn last_rank(&self, index: usize) -> Option<usize> {
        let number = self.model.works.get(index)?.match_id?;
        let works = self.causes.matches.get(&number)?;
        let begin = |index: &usize| self.model.works.get(*index).map(|work| work.time.0);
        let last = *works.iter().max_by_key(|index| begin(index))?;
        // A rank that comes behind the end of this one is no rank of the same collective.
        let is_later = begin(&last) > begin(&index) && begin(&last)? < self.now_ns;
        is_later.then_some(last)
    }

    /// Goes from the begin of work to what it waited for last.
    fn before(&mut self, index: usize) -> WalkState {
        let Some(work) = self.model.works.get(index) else { return WalkState::Done };
        let cause = self.causes.cause(index);
        let end =
            |index: Option<usize>| Some((self.model.works.get(index?)?.time.1.min(work.time.0), index?));
        let before = end(cause.before).map(|(end, index)| (end, "stream", index));
        let other = end(cause.other).map(|(end, index)| (end, "inferred", index));
        let call = CauseTable::call_ns(self.model, index).zip(work.call);
        let latest = before.max(other);
        if let Some((call_ns, (thread, _))) = call
            && latest.is_none_or(|(end, ..)| end <= call_ns)
        {
            self.add(call_ns, work.run, PathItem::Launch, Some(index), (None, work.kernel_id));
            self.relation = "launch";
            return WalkState::Thread(thread, work.kernel_id);
        }
        let Some((end, relation, next)) = latest else { return WalkState::Done };
        // Work that was launched before the recording may have waited for anything.
        let usual = MAX_UNEXPLAINED * self.causes.handover_ns.max(self.causes.launch_ns);
        let is_explained = call.is_some() || work.time.0 - end <= usual;
        let item = if is_explained { PathItem::Handover } else { PathItem::Unknown };
        self.add(end, work.run, item, Some(index), (None, work.kernel_id));
        self.relation = relation;
        WalkState::Work(next)
    }

    /// Goes through the code of a thread to the last moment at which it waited for work or for another thread.
    fn thread(&mut self, at: usize, kernel_id: Option<u64>) -> WalkState {
        let Some(thread) = self.model.threads.get(at) else { return WalkState::Done };
        let waited = thread.last_return(self.now_ns).filter(|(end, _)| *end > self.floor_ns);
        let stop_ns = waited.map_or(self.floor_ns, |(end, _)| end);
        let came = came_from(self.model, at, stop_ns, self.now_ns);
        let begin_ns = came.map_or(stop_ns, |(begin_ns, _)| begin_ns);
        self.stretches(at, begin_ns, kernel_id);
        if let Some((_, other)) = came {
            self.relation = "thread";
            return WalkState::Thread(other, kernel_id);
        }
        let Some((_, work)) = waited else { return WalkState::Done };
        let Some(ended) = self.model.works.get(work) else { return WalkState::Done };
        self.add(ended.time.1, thread.run, PathItem::Return, Some(work), (None, kernel_id));
        self.relation = "wait";
        WalkState::Work(work)
    }

    /// Adds the code of a thread from a moment to now, op by op.
    fn stretches(&mut self, at: usize, begin_ns: i64, kernel_id: Option<u64>) {
        let model = self.model;
        let Some(thread) = model.threads.get(at) else { return };
        while self.now_ns > begin_ns {
            let index = thread.stretch_at(self.now_ns - 1);
            let stretch = index.and_then(|index| thread.stretches.get(index));
            let known = stretch.and_then(|stretch| stretch.item).and_then(|item| model.host_items.get(item));
            let item = known.cloned().unwrap_or(PathItem::Host(None));
            let from = stretch.map_or(begin_ns, |stretch| stretch.begin_ns).max(begin_ns);
            let op_id = stretch.and_then(|stretch| stretch.op_id);
            self.add(from, thread.run, item, None, (op_id, kernel_id));
        }
    }
}

/// The thread that a thread waited for: the last one of its run to rest while it did, since a moment. And when that was.
pub(crate) fn came_from(
    model: &CriticalModel,
    at: usize,
    since_ns: i64,
    upto_ns: i64,
) -> Option<(i64, usize)> {
    let thread = model.threads.get(at)?;
    if model.threads.iter().filter(|other| other.run == thread.run).count() < 2 {
        return None;
    }
    let mut index = thread.stretch_at(upto_ns - 1);
    let mut end_ns = upto_ns;
    loop {
        let stretch = index.and_then(|index| thread.stretches.get(index));
        let begin_ns = stretch.map_or(since_ns, |stretch| stretch.begin_ns).max(since_ns);
        let is_rest = stretch.is_none_or(|stretch| stretch.is_rest);
        if is_rest && end_ns - begin_ns >= MIN_REST_NS {
            let others = model.threads.iter().enumerate();
            let others = others.filter(|(other, found)| *other != at && found.run == thread.run);
            let found = others.filter_map(|(other, found)| Some((rest_before(found, end_ns)?, other)));
            if let Some(found) = found.filter(|(rest_ns, _)| *rest_ns > begin_ns).max() {
                return Some(found);
            }
        }
        end_ns = begin_ns;
        if begin_ns <= since_ns {
            return None;
        }
        index = index.and_then(|index| index.checked_sub(1));
    }
}

/// The moment since which a thread rests. None if it does not rest.
fn rest_before(thread: &HostThread, ns: i64) -> Option<i64> {
    let stretch = thread.stretches.get(thread.stretch_at(ns - 1)?)?;
    stretch.is_rest.then_some(stretch.begin_ns)
}
