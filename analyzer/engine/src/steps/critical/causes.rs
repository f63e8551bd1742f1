//! The causes of the begin of each piece of work, and usual times of launches and handovers.

use std::collections::HashMap;

use super::model::CriticalModel;

/// Work that begins later than this behind the end of another stream's work is not taken to have waited for it.
const MAX_INFERRED_NS: i64 = 10_000;
/// Launches whose kernel begins later than so many usual times behind its call waited for something else.
const MAX_USUAL_LAUNCHES: i64 = 3;
/// The usual times of a program in which no launch shows one.
const DEFAULT_LAUNCH_NS: i64 = 5_000;
const DEFAULT_HANDOVER_NS: i64 = 1_000;

/// The work that a piece of work may have waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkCause {
    /// The work before it on its stream, by index.
    pub(crate) before: Option<usize>,
    /// Work of another stream that ended right before it, where nothing else explains its begin.
    pub(crate) other: Option<usize>,
}

/// Causes of all work, and usual times.
#[derive(Debug, Default)]
pub(crate) struct CauseTable {
    /// By the place of the work.
    pub(crate) causes: Vec<WorkCause>,
    /// From the begin of a call to that of its work, on an idle stream.
    pub(crate) launch_ns: i64,
    /// From the end of work to the begin of the next on its stream, if that was launched long before.
    pub(crate) handover_ns: i64,
    /// All work by run and end.
    ends: Vec<(usize, i64, usize)>,
    /// The works of a collective, by its number.
    pub(crate) matches: HashMap<u64, Vec<usize>>,
}

impl CauseTable {
    /// Finds the causes.
    pub(crate) fn from_model(model: &CriticalModel) -> Self {
        let mut table = Self { causes: vec![WorkCause::default(); model.works.len()], ..Self::default() };
        table.order_streams(model);
        table.learn(model);
        table.infer(model);
        for (index, work) in model.works.iter().enumerate() {
            if let Some(number) = work.match_id {
                table.matches.entry(number).or_default().push(index);
            }
        }
        // Without another rank, a collective waits for none.
        table.matches.retain(|_, works| works.len() > 1);
        table
    }

    /// The begin of the call of a piece of work, at the latest that of the work.
    pub(crate) fn call_ns(model: &CriticalModel, index: usize) -> Option<i64> {
        let work = model.works.get(index)?;
        let (thread, event) = work.call?;
        let event = model.threads.get(thread)?.events.get(event)?;
        Some(event.time.0.min(work.time.0))
    }

    /// The cause of a piece of work.
    pub(crate) fn cause(&self, index: usize) -> WorkCause {
        self.causes.get(index).copied().unwrap_or_default()
    }

    /// Work of a run that ended up to a moment: end and index, the last one first.
    pub(crate) fn ended(&self, run: usize, upto_ns: i64) -> impl Iterator<Item = (i64, usize)> {
        let count = self.ends.partition_point(|(own, end, _)| (*own, *end) <= (run, upto_ns));
        let before = self.ends.get(..count).unwrap_or_default().iter().rev();
        before.take_while(move |(own, ..)| *own == run).map(|(_, end, index)| (*end, *index))
    }

    fn order_streams(&mut self, model: &CriticalModel) {
        let mut last: HashMap<(usize, i32, u32), usize> = HashMap::new();
        for (index, work) in model.works.iter().enumerate() {
            let Some((device, stream)) = work.stream else { continue };
            let before = last.insert((work.run, device, stream), index);
            if let Some(cause) = self.causes.get_mut(index) {
                cause.before = before;
            }
        }
    }

    /// Learns usual times from launches that waited for one thing only.
    fn learn(&mut self, model: &CriticalModel) {
        let (mut launches, mut handovers) = (Vec::new(), Vec::new());
        for (index, work) in model.works.iter().enumerate() {
            let Some(call) = Self::call_ns(model, index) else { continue };
            let before = self.cause(index).before.and_then(|before| model.works.get(before));
            match before.map(|before| before.time.1) {
                Some(end) if end > call => handovers.push((work.time.0 - end).max(0)),
                _ => launches.push(work.time.0 - call),
            }
        }
        // Some launches on an idle stream waited for another stream: most take less time than those.
        self.launch_ns = quartile(launches).unwrap_or(DEFAULT_LAUNCH_NS);
        self.handover_ns = quartile(handovers).unwrap_or(DEFAULT_HANDOVER_NS);
    }

    /// Finds waits for other streams by their times: no source has them.
    fn infer(&mut self, model: &CriticalModel) {
        let ended = model.works.iter().enumerate().map(|(index, work)| (work.run, work.time.1, index));
        self.ends = ended.collect();
        self.ends.sort_unstable();
        for (index, work) in model.works.iter().enumerate() {
            let before = self.cause(index).before;
            let before_ns = before.and_then(|before| model.works.get(before)).map(|before| before.time.1);
            let call = Self::call_ns(model, index);
            let begin = work.time.0;
            let ready = before_ns.max(call);
            let is_late = |ready: i64| begin - ready > MAX_USUAL_LAUNCHES * self.launch_ns;
            if ready.is_some_and(|ready| !is_late(ready)) {
                continue;
            }
            let recent = self
                .ended(work.run, begin)
                .take_while(|(end, _)| begin - end <= MAX_INFERRED_NS && Some(*end) > ready);
            let other = recent.map(|(_, other)| other).find(|other| {
                *other != index && model.works.get(*other).is_some_and(|other| other.stream != work.stream)
            });
            if let Some(cause) = self.causes.get_mut(index) {
                cause.other = other;
            }
        }
    }
}

/// The lower quartile.
fn quartile(mut values: Vec<i64>) -> Option<i64> {
    let index = values.len() / 4;
    (!values.is_empty()).then(|| *values.select_nth_unstable(index).1)
}
