//! Selection of producers among the candidates of a wait, by stall reason.
//!
//! The scoreboard lists the candidates. Candidates that the stall reason cannot mean are dropped. Registers choose
//! among the rest: a result that is read, then one that is overwritten, then sources that are overwritten. Shared
//! memory answers in order, so its last access is the producer. If no candidate fits the reason, all stay, marked so.
//! Weights are shares by inverse distance in issue cycles.

use std::collections::BTreeMap;

use crate::control::BARRIERS;
use crate::instruction::{ExecutionUnit, MemoryEffect, SassInstruction, WarpFlow};
use crate::register::Registers;
use crate::slice::analysis::{ProducerConfidence, ProducerLink, WaitClass, WaitProducer, offset};
use crate::slice::copies::{CopyOrigin, SectionCopies};
use crate::slice::definitions::RegisterWrites;
use crate::slice::graph::FlowGraph;
use crate::slice::scoreboard::{WaitCandidate, WaitMeans, WaitingInstruction, for_each_waiting};
use crate::slice::slots::by_order;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Steps that a producer counts: it has many bytes.
const PRODUCER_STEPS: usize = 16;

/// Producers in a section, by (waiter, wait, producer).
pub(crate) fn producers(
    instructions: &[SassInstruction],
    flow: &FlowGraph,
    definitions: &RegisterWrites,
    copies: &SectionCopies,
    work: &AnalysisBudget,
) -> Result<Vec<WaitProducer>, TooMuchWork> {
    let mut found = Vec::new();
    for_each_waiting(instructions, flow, work, |waiting| {
        for wait in [WaitClass::LongScoreboard, WaitClass::ShortScoreboard, WaitClass::Stores] {
            let slice = WaitSlice { instructions, flow, definitions, waiting, wait };
            slice.add_producers(copies, work, &mut found)?;
        }
        Ok(())
    })?;
    Ok(normalized(found))
}

/// Sorted, each producer of a wait once, with weights that sum to 1: a fence behind the end of some lanes waits for its
/// own stores, and is where those lanes are found waiting for theirs.
fn normalized(producers: Vec<WaitProducer>) -> Vec<WaitProducer> {
    let mut waits: BTreeMap<(u32, WaitClass), Vec<WaitProducer>> = BTreeMap::new();
    for producer in producers {
        waits.entry((producer.waiter, producer.wait)).or_default().push(producer);
    }
    let normalized = |producers: Vec<WaitProducer>| {
        let total: f64 = producers.iter().map(|producer| producer.weight).sum();
        merged(producers).into_iter().map(move |one| WaitProducer { weight: one.weight / total, ..one })
    };
    waits.into_values().flat_map(normalized).collect()
}

/// One instruction's wait for one reason.
struct WaitSlice<'a> {
    instructions: &'a [SassInstruction],
    flow: &'a FlowGraph,
    definitions: &'a RegisterWrites,
    waiting: &'a WaitingInstruction,
    wait: WaitClass,
}

/// A candidate that is linked to the waiter.
#[derive(Clone, Copy, Debug)]
struct LinkedCandidate {
    producer: usize,
    link: ProducerLink,
    cycles: Option<u32>,
    /// As in [`WaitCandidate`].
    position: u32,
}

/// By barrier: cycles since it was set.
type NewestSetters = [Option<u32>; BARRIERS as usize];

impl WaitSlice<'_> {
    fn add_producers(
        &self,
        copies: &SectionCopies,
        work: &AnalysisBudget,
        found: &mut Vec<WaitProducer>,
    ) -> Result<(), TooMuchWork> {
        let (linked, is_fit) = self.fitting();
        let possible = linked.len();
        let chosen = self.without_covered(strongest(linked));
        let confidence = match (is_fit, possible, chosen.len()) {
            (false, ..) => ProducerConfidence::Low,
            (true, 1, _) => ProducerConfidence::Exact,
            (true, _, 1) => ProducerConfidence::Refined,
            _ => ProducerConfidence::Shared,
        };
        let total: f64 = chosen.iter().map(|linked| nearness(linked.cycles)).sum();
        let slots = self.slots(&chosen, work)?;
        let newest = self.newest();
        for (linked, slot) in chosen.into_iter().zip(slots) {
            let weight = nearness(linked.cycles) / total;
            let producer = WaitProducer { slot, ..self.producer(linked, weight, confidence, &newest) };
            let arriving = copies.arriving(linked.producer);
            work.spend(PRODUCER_STEPS * arriving.len().max(1))?;
            if arriving.is_empty() {
                found.push(producer);
            } else {
                found.extend(signalling(copies, arriving, producer, work)?);
            }
        }
        Ok(())
    }

    fn producer(
        &self,
        linked: LinkedCandidate,
        weight: f64,
        confidence: ProducerConfidence,
        newest: &NewestSetters,
    ) -> WaitProducer {
        // A warp that has exited is found behind the exit, where there is code.
        let has_exited = self.wait == WaitClass::Stores
            && matches!(self.instructions[self.waiting.waiter].flow, WarpFlow::Exit { .. })
            && self.waiting.waiter + 1 < self.instructions.len();
        WaitProducer {
            waiter: offset(self.waiting.waiter + usize::from(has_exited)),
            wait: self.wait,
            producer: offset(linked.producer),
            link: linked.link,
            distance_cycles: linked.cycles,
            covered_cycles: self.since_set(linked, newest),
            slot: 0,
            weight,
            confidence,
        }
    }

    /// The fewest cycles since the barrier of a candidate was set, by any instruction. Where no register distinguishes
    /// the setters, each is a producer of its own.
    fn since_set(&self, linked: LinkedCandidate, newest: &NewestSetters) -> Option<u32> {
        let barrier = self.instructions[linked.producer].control.write_barrier;
        let others = barrier
            .filter(|_| linked.link != ProducerLink::Barrier)
            .and_then(|barrier| *newest.get(usize::from(barrier))?);
        linked.cycles.map(|cycles| others.map_or(cycles, |others| others.min(cycles)))
    }

    /// By barrier: the fewest cycles since an instruction set it.
    fn newest(&self) -> NewestSetters {
        let mut newest = NewestSetters::default();
        for candidate in &self.waiting.candidates {
            if let (WaitMeans::Written(barrier), Some(cycles)) = (candidate.through, candidate.cycles)
                && let Some(fewest) = newest.get_mut(usize::from(barrier))
            {
                *fewest = Some(fewest.map_or(cycles, |fewest: u32| fewest.min(cycles)));
            }
        }
        newest
    }

    /// The slot of each producer. Those that supply one register are alternatives, as are copies at one position of
    /// several groups: the oldest group is waited for. Without registers, paths decide: see [`by_order`]. All others
    /// are taken for alternatives.
    fn slots(&self, chosen: &[LinkedCandidate], work: &AnalysisBudget) -> Result<Vec<u32>, TooMuchWork> {
        let has_result = |linked: &LinkedCandidate| {
            linked.link == ProducerLink::Barrier
                && self.instructions[linked.producer].control.write_barrier.is_some()
        };
        if chosen.iter().all(has_result) {
            let producers: Vec<usize> = chosen.iter().map(|linked| linked.producer).collect();
            return by_order(self.flow, &producers, self.waiting.waiter, work);
        }
        Ok(self.slots_by_register(chosen))
    }

    fn slots_by_register(&self, chosen: &[LinkedCandidate]) -> Vec<u32> {
        // Only those that supply a register which none before them does: a search finds the first.
        let (mut taken, mut all): (Vec<(Registers, u32)>, _) = (Vec::new(), Registers::NONE);
        let mut slots = Vec::new();
        let count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
        for (next, linked) in (0..).zip(chosen) {
            let supplied = self.supplied(linked);
            let known = || taken.iter().find(|(registers, _)| registers.intersects(&supplied));
            let slot = match linked.link {
                ProducerLink::Group => count.saturating_add(linked.position),
                ProducerLink::Reads | ProducerLink::Overwrites => known().map_or(next, |(_, slot)| *slot),
                _ => 0,
            };
            if !supplied.without(&all).is_empty() {
                taken.push((supplied, slot));
                all = all.or(&supplied);
            }
            slots.push(slot);
        }
        slots
    }

    /// The registers of the waiter that wait for a producer.
    fn supplied(&self, linked: &LinkedCandidate) -> Registers {
        let waiter = &self.instructions[self.waiting.waiter];
        let written = &self.instructions[linked.producer].writes;
        if linked.link == ProducerLink::Reads {
            waiter.reads.and(written)
        } else {
            waiter.writes.and(written)
        }
    }

    /// The candidates that the wait can mean. All of them, where there is none.
    fn fitting(&self) -> (Vec<LinkedCandidate>, bool) {
        let of_stores = |candidate: &&WaitCandidate| candidate.through == WaitMeans::Store;
        if self.wait == WaitClass::Stores {
            return (self.linked(self.waiting.candidates.iter().filter(of_stores)), true);
        }
        let barriers = || self.waiting.candidates.iter().filter(|candidate| !of_stores(candidate));
        let fits = |candidate: &&WaitCandidate| fits(&self.instructions[candidate.producer], self.wait);
        let fitting = self.linked(barriers().filter(fits));
        if fitting.is_empty() { (self.linked(barriers()), false) } else { (fitting, true) }
    }

    /// Shared memory answers in order: an access of it covers those that the same block issued earlier, and one in the
    /// waiter's own block covers all earlier ones.
    fn without_covered(&self, linked: Vec<LinkedCandidate>) -> Vec<LinkedCandidate> {
        let waiter = self.waiting.waiter;
        // A warp comes to the waiter before the rest of its block.
        let part_of = |instruction: usize| (self.flow.block_of.get(instruction), instruction < waiter);
        let own_part = (self.flow.block_of.get(waiter), true);
        let is_in_order = |linked: &LinkedCandidate| answers_in_order(&self.instructions[linked.producer]);
        let mut last = BTreeMap::new();
        for one in linked.iter().filter(|one| is_in_order(one)).map(|one| one.producer) {
            if self.instructions[one].is_unconditional() {
                last.entry(part_of(one)).and_modify(|last| *last = one.max(*last)).or_insert(one);
            }
        }
        let is_covered = |one: usize| {
            let by_own = last.get(&own_part).is_some_and(|last| !(*last..waiter).contains(&one));
            by_own || last.get(&part_of(one)).is_some_and(|last| one < *last)
        };
        let is_kept = |linked: &LinkedCandidate| {
            !is_in_order(linked) || linked.link == ProducerLink::Group || !is_covered(linked.producer)
        };
        linked.into_iter().filter(is_kept).collect()
    }

    /// Each producer once, by its strongest link.
    fn linked<'c>(&self, candidates: impl Iterator<Item = &'c WaitCandidate>) -> Vec<LinkedCandidate> {
        let mut linked: BTreeMap<usize, LinkedCandidate> = BTreeMap::new();
        for candidate in candidates {
            let link = self.link(candidate);
            let known = linked.entry(candidate.producer).or_insert(LinkedCandidate {
                producer: candidate.producer,
                link,
                cycles: candidate.cycles,
                position: candidate.position,
            });
            if link < known.link {
                *known = LinkedCandidate { link, ..*known };
            }
        }
        linked.into_values().collect()
    }

    fn link(&self, candidate: &WaitCandidate) -> ProducerLink {
        let waiter = &self.instructions[self.waiting.waiter];
        let producer = &self.instructions[candidate.producer];
        let is_linked = !self.excludes(candidate.producer);
        match candidate.through {
            WaitMeans::Group => ProducerLink::Group,
            WaitMeans::Store => ProducerLink::Store,
            WaitMeans::Written(_) | WaitMeans::InOrder
                if is_linked && waiter.reads.intersects(&producer.writes) =>
            {
                ProducerLink::Reads
            }
            WaitMeans::Written(_) | WaitMeans::InOrder
                if is_linked && waiter.writes.intersects(&producer.writes) =>
            {
                ProducerLink::Overwrites
            }
            WaitMeans::Read(_) if waiter.writes.intersects(&producer.reads) => ProducerLink::Reuses,
            WaitMeans::Written(_) | WaitMeans::Read(_) | WaitMeans::InOrder => ProducerLink::Barrier,
        }
    }

    /// True if the waiter executes only if the producer does not: opposite guards, the predicate unchanged between
    /// them. Seen within a block.
    fn excludes(&self, producer: usize) -> bool {
        let (first, last) = (producer, self.waiting.waiter);
        let guards = (self.instructions[first].guard, self.instructions[last].guard);
        let (Some(one), Some(other)) = guards else { return false };
        first < last
            && self.flow.block_of.get(first) == self.flow.block_of.get(last)
            && one.register == other.register
            && one.negated != other.negated
            && self.definitions.within(first..last, one.register).is_empty()
    }
}

/// Slots of a wait before those of copies that signal an mbarrier.
const OWN_SLOTS: u32 = 1 << 16;

/// Copies and arrivals that signal the mbarrier that a producer tests. Copies from one source are alternatives, since a
/// ring is filled from several places of the code. Copies from several are awaited together, and with them those that
/// are carried out in order.
fn signalling(
    copies: &SectionCopies,
    arriving: &[usize],
    test: WaitProducer,
    work: &AnalysisBudget,
) -> Result<Vec<WaitProducer>, TooMuchWork> {
    let mut by_source: BTreeMap<CopyOrigin<'_>, Vec<(usize, ProducerLink)>> = BTreeMap::new();
    for one in arriving {
        by_source.entry(copies.source(*one)).or_default().push((*one, ProducerLink::Mbarrier));
    }
    let in_order = copies.in_order_with(arriving, work)?;
    work.spend(in_order.len() * (PRODUCER_STEPS + arriving.len()))?;
    for one in in_order {
        let source = copies.source(one);
        // With the source of one that signals, it is an alternative to that one, and adds nothing.
        if !arriving.iter().any(|signal| copies.source(*signal) == source) {
            by_source.entry(source).or_default().push((one, ProducerLink::InOrder));
        }
    }
    let sources = by_source.len() as f64;
    let of_source = |(slot, (_, alternatives)): (u32, (CopyOrigin<'_>, Vec<(usize, ProducerLink)>))| {
        let weight = test.weight / sources / alternatives.len() as f64;
        let slot = test.slot.saturating_add(slot.saturating_mul(OWN_SLOTS));
        let signal = move |(one, link)| WaitProducer {
            producer: offset(one),
            link,
            distance_cycles: None,
            covered_cycles: None,
            slot,
            weight,
            confidence: ProducerConfidence::Approximate,
            ..test
        };
        alternatives.into_iter().map(signal).collect::<Vec<_>>()
    };
    Ok((0..).zip(by_source).flat_map(of_source).collect())
}

/// The candidates with the strongest link. Groups of copies are waited for whatever registers say.
fn strongest(linked: Vec<LinkedCandidate>) -> Vec<LinkedCandidate> {
    let best = linked.iter().map(|linked| linked.link).min();
    let is_kept = |linked: &LinkedCandidate| Some(linked.link) == best || linked.link == ProducerLink::Group;
    linked.into_iter().filter(is_kept).collect()
}

/// Accesses of shared memory, mbarriers among them, and the fences behind them. A test of an mbarrier answers when that
/// changes, whatever was asked before it.
fn answers_in_order(instruction: &SassInstruction) -> bool {
    match instruction.mnemonic {
        Some("SYNCS") => instruction.writes.is_empty(),
        Some("FENCE") => true,
        _ => instruction.class == ExecutionUnit::Shared,
    }
}

fn nearness(cycles: Option<u32>) -> f64 {
    1.0 / f64::from(cycles.unwrap_or(1).max(1))
}

/// Each producer once, by its offset. A copy that signals two awaited mbarriers gets the weights of both.
fn merged(producers: Vec<WaitProducer>) -> Vec<WaitProducer> {
    let mut merged: BTreeMap<u32, WaitProducer> = BTreeMap::new();
    for producer in producers {
        merged
            .entry(producer.producer)
            .and_modify(|known| known.weight += producer.weight)
            .or_insert(producer);
    }
    merged.into_values().collect()
}

/// True if the hardware reports a wait for this instruction with this reason. Measured on samples: mbarriers, copies
/// and anything that may leave the multiprocessor are long, the units next to the arithmetic are short.
fn fits(producer: &SassInstruction, wait: WaitClass) -> bool {
    let is_long = match producer.class {
        ExecutionUnit::Global
        | ExecutionUnit::Local
        | ExecutionUnit::Texture
        | ExecutionUnit::Async
        | ExecutionUnit::Sync => true,
        ExecutionUnit::Unknown => return true,
        _ => false,
    };
    let is_shared = producer.memory.is_some_and(|memory| {
        producer.class == ExecutionUnit::Shared || memory.kind == MemoryEffect::Prefetch
    });
    match wait {
        WaitClass::LongScoreboard => is_long,
        WaitClass::ShortScoreboard => !is_long || is_shared,
        WaitClass::Stores => true,
    }
}
