//! Processes of a trace, and the calls that launch their work.
//!
//! Events of the host name their process. Those of a GPU name the GPU: their process is that of the call with the same
//! correlation. Traces of several ranks that a program merged have a text in front of the numbers, as in `[TP00] 10`. A
//! correlation is known within such a group only.

use std::collections::HashMap;
use std::rc::Rc;

use crate::model::TraceCall;

/// A process of the host: the text in front of its number, and the number.
type ProcessName = (String, Option<u32>);

/// The kernel of a launch call, where the call names it.
#[derive(Debug, Default)]
pub(super) struct CalledKernel {
    pub(super) name: Option<Rc<str>>,
    pub(super) grid: Option<[u32; 3]>,
    pub(super) block: Option<[u32; 3]>,
}

/// A call of the host. A trace has as many as it has kernels: they are small.
#[derive(Debug)]
pub(super) struct HostCall {
    group: u32,
    process: u32,
    correlation: i64,
    pub(super) call: TraceCall,
    pub(super) name: Rc<str>,
    /// The kernel of a call that launches one. Calls that name none share it.
    pub(super) kernel: Option<Rc<CalledKernel>>,
    /// True if a piece of work is its.
    pub(super) has_work: bool,
}

/// The process, the call and its name.
type FoundCall = (usize, TraceCall, Rc<str>);

/// Groups, processes and calls of a trace.
#[derive(Debug, Default)]
pub(super) struct TraceOwners {
    groups: HashMap<String, usize>,
    processes: Vec<(ProcessName, usize)>,
    numbers: HashMap<String, usize>,
    calls: Vec<HostCall>,
    is_sorted: bool,
}

impl TraceOwners {
    /// The group of an event of a GPU.
    pub(super) fn group(&mut self, text: &str) -> usize {
        let (group, _) = split(text);
        let next = self.groups.len();
        if let Some(place) = self.groups.get(group) {
            return *place;
        }
        self.groups.insert(group.to_owned(), next);
        next
    }

    /// The place of a process of the host.
    pub(super) fn process(&mut self, text: &str) -> usize {
        if let Some(place) = self.numbers.get(text) {
            return *place;
        }
        let group = self.group(text);
        let (prefix, number) = split(text);
        let place = self.processes.len();
        self.processes.push(((prefix.to_owned(), number), group));
        self.numbers.insert(text.to_owned(), place);
        place
    }

    /// Adds a call of a process.
    pub(super) fn call(
        &mut self,
        process: usize,
        correlation: i64,
        (name, call): (Rc<str>, TraceCall),
        kernel: Option<Rc<CalledKernel>>,
    ) {
        let group = self.processes.get(process).map_or(0, |(_, group)| *group);
        let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let (group, process) = (number(group), number(process));
        self.calls.push(HostCall { group, process, correlation, call, name, kernel, has_work: false });
        self.is_sorted = false;
    }

    /// The process and the call of a piece of work: of several with its number, the last one that begins before it.
    pub(super) fn find(&mut self, group: usize, correlation: i64, begin_ns: i64) -> Option<FoundCall> {
        if !self.is_sorted {
            self.calls.sort_by_key(|call| (call.group, call.correlation, call.call.begin_ns));
            self.is_sorted = true;
        }
        let key = |call: &HostCall| (call.group, call.correlation);
        let wanted = (u32::try_from(group).ok()?, correlation);
        let first = self.calls.partition_point(|call| key(call) < wanted);
        let end = self.calls.partition_point(|call| (key(call), call.call.begin_ns) <= (wanted, begin_ns));
        let found = if end > first { end - 1 } else { first };
        let found = self.calls.get_mut(found).filter(|call| key(call) == wanted)?;
        found.has_work = true;
        Some((found.process as usize, found.call, found.name.clone()))
    }

    /// The process of all calls. None of several.
    pub(super) fn only_caller(&self) -> Option<usize> {
        let first = self.calls.first()?.process;
        self.calls.iter().all(|call| call.process == first).then_some(first as usize)
    }

    /// Takes the calls without work.
    pub(super) fn take_idle(&mut self) -> Vec<HostCall> {
        self.calls.retain(|call| !call.has_work);
        std::mem::take(&mut self.calls)
    }

    /// The process of work without a call: the first one of its group.
    pub(super) fn first_of(&self, group: usize) -> usize {
        self.processes.iter().position(|(_, own)| *own == group).unwrap_or(0)
    }

    /// Processes as text in front of the number, number and rank in that text.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&str, u32, Option<u32>)> {
        self.processes
            .iter()
            .map(|((prefix, number), _)| (prefix.as_str(), number.unwrap_or(0), rank(prefix)))
    }

    /// True if no event of the host names a process.
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
}

/// The text in front of a number, and the number.
fn split(text: &str) -> (&str, Option<u32>) {
    let prefix = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = text.get(prefix.len()..).and_then(|number| number.parse().ok());
    (prefix.trim_end(), number)
}

/// The rank of a group that has one number, as `[TP01]`.
fn rank(prefix: &str) -> Option<u32> {
    let mut numbers = prefix.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
    let only = numbers.next().filter(|_| numbers.next().is_none());
    only?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correlation_is_that_of_its_group_and_of_the_last_call_before() {
        let mut owners = TraceOwners::default();
        let call = |begin_ns| TraceCall { thread: 1, begin_ns, end_ns: begin_ns + 1 };
        for (process, begin_ns) in [("[TP00] 10", 10), ("[TP01] 10", 12), ("[TP01] 10", 30)] {
            let process = owners.process(process);
            owners.call(process, 7, ("launch".into(), call(begin_ns)), None);
        }
        let group = owners.group("[TP01] 0");
        let begin = |owners: &mut TraceOwners, group, at| {
            owners.find(group, 7, at).map(|(process, call, _)| (process, call.begin_ns))
        };
        assert_eq!(begin(&mut owners, group, 20), Some((1, 12)));
        assert_eq!(begin(&mut owners, group, 40), Some((1, 30)));
        assert_eq!(begin(&mut owners, group, 5), Some((1, 12)));
        let group = owners.group("[TP00] 0");
        assert_eq!(begin(&mut owners, group, 40), Some((0, 10)));
        assert!(owners.find(group, 8, 40).is_none());
        let found: Vec<_> = owners.processes().collect();
        assert_eq!(found, [("[TP00]", 10, Some(0)), ("[TP01]", 10, Some(1))]);
        assert_eq!(
            (rank("[DP00-TP01]"), split("10"), split("Spans")),
            (None, ("", Some(10)), ("Spans", None))
        );
    }
}
