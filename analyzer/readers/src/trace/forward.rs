//! Threads of forward ops: a gradient names the thread of its forward op by a number of PyTorch's own.
//!
//! Autograd numbers the ops of each thread by themselves, so a number alone says little where several threads run forward.
//! Arrows from forward ops to gradients name both threads. Without them, the thread that has most of the numbers counts.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use crate::trace::model::TraceOp;

/// An arrow from a forward op to its gradient.
#[derive(Clone, Copy, Debug)]
pub struct ForwardLink {
    /// The thread of the forward op.
    pub forward: u64,
    /// The thread of the gradient.
    pub backward: u64,
    /// The begin of the gradient.
    pub begin_ns: i64,
}

/// Most threads with forward ops that are compared: those of a program that starts one per batch say nothing.
const MAX_THREADS: usize = 1 << 8;

/// A thread by PyTorch's number, with its process.
type ForwardThread = (usize, NonZeroU32);

/// Pairs of PyTorch's numbers and threads, with what speaks for them.
type ThreadVotes = BTreeMap<(ForwardThread, u64), u64>;

/// The threads of forward ops by PyTorch's numbers. Empty where each process has one thread of them.
#[derive(Debug, Default)]
pub(super) struct ForwardThreads(BTreeMap<ForwardThread, u64>);

impl ForwardThreads {
    /// Finds the threads. Ops are in the order of time.
    pub(super) fn find(ops: &[TraceOp], links: &[ForwardLink]) -> Self {
        let mut found = Self::default();
        let threads: BTreeSet<(usize, u64)> =
            forward_ops(ops).map(|op| (op.process, op.call.thread)).collect();
        let processes: BTreeSet<usize> = threads.iter().map(|(process, _)| *process).collect();
        if threads.len() == processes.len() || threads.len() > MAX_THREADS {
            return found;
        }
        found.assign(of_links(ops, links));
        found.assign(of_numbers(ops));
        found
    }

    /// The thread of the forward op of a gradient.
    pub(super) fn of(&self, op: &TraceOp) -> Option<u64> {
        self.0.get(&(op.process, op.forward_thread()?)).copied()
    }

    /// Gives numbers their threads, those with most votes first. A thread has one number. Equal votes say nothing.
    fn assign(&mut self, votes: ThreadVotes) {
        let mut known: BTreeSet<u64> = self.0.values().copied().collect();
        let mut votes: Vec<((ForwardThread, u64), u64)> = votes.into_iter().collect();
        votes.sort_by_key(|(pair, count)| (std::cmp::Reverse(*count), *pair));
        for place in 0..votes.len() {
            let Some(((number, thread), count)) = votes.get(place).copied() else { break };
            let is_other = |((other, thread), votes): &((ForwardThread, u64), u64)| {
                *other == number && *votes >= count && !known.contains(thread)
            };
            let equal = votes.iter().filter(|vote| is_other(vote)).count();
            if equal == 1 && !self.0.contains_key(&number) && known.insert(thread) {
                self.0.insert(number, thread);
            }
        }
    }
}

/// Ops with a number of their own thread.
fn forward_ops(ops: &[TraceOp]) -> impl Iterator<Item = &TraceOp> {
    ops.iter().filter(|op| op.sequence().is_some() && op.forward_thread().is_none())
}

/// Gradients, each with the number of its forward op and that of its thread.
fn gradients(ops: &[TraceOp]) -> impl Iterator<Item = (ForwardThread, i64)> {
    ops.iter().filter_map(|op| Some(((op.process, op.forward_thread()?), op.sequence()?)))
}

/// Threads that arrows name.
fn of_links(ops: &[TraceOp], links: &[ForwardLink]) -> ThreadVotes {
    let mut votes = ThreadVotes::new();
    for link in links {
        let first = ops.partition_point(|op| op.call.begin_ns < link.begin_ns);
        let begun = ops.iter().skip(first).take_while(|op| op.call.begin_ns == link.begin_ns);
        let mut of_thread = begun.filter(|op| op.call.thread == link.backward);
        if let Some(number) = of_thread.find_map(|op| Some((op.process, op.forward_thread()?))) {
            *votes.entry((number, link.forward)).or_default() += 1;
        }
    }
    votes
}

/// Threads that have forward ops of the numbers of gradients.
fn of_numbers(ops: &[TraceOp]) -> ThreadVotes {
    let mut threads: BTreeMap<(usize, i64), BTreeSet<u64>> = BTreeMap::new();
    for op in forward_ops(ops) {
        let Some(sequence) = op.sequence() else { continue };
        threads.entry((op.process, sequence)).or_default().insert(op.call.thread);
    }
    let mut votes = ThreadVotes::new();
    for (number, sequence) in gradients(ops) {
        for thread in threads.get(&(number.0, sequence)).into_iter().flatten() {
            *votes.entry((number, *thread)).or_default() += 1;
        }
    }
    votes
}
