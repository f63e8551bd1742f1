//! Definitions that may reach an instruction: along its block, and through the blocks before it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use super::ValueQuery;
use crate::instruction::Guard;
use crate::register::Register;
use crate::slice::work::TooMuchWork;

/// The predicate of a guard, and which instruction of the block set it last.
pub(super) type GuardCondition = (Guard, Option<usize>);

/// Instructions whose result a register may hold. `None` stands for a value from outside.
pub(super) type ReachingSources = Rc<BTreeSet<Option<usize>>>;

impl ValueQuery<'_> {
    pub(super) fn block_of(&self, index: usize) -> Option<NodeIndex> {
        self.flow.block_of.get(index).copied()
    }

    /// Instructions of the section whose result a register may hold before an instruction.
    pub(crate) fn definitions_before(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<Vec<usize>, TooMuchWork> {
        Ok(self.definitions(index, register)?.iter().flatten().copied().collect())
    }

    /// Instructions whose result a register may hold before an instruction.
    pub(super) fn definitions(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<ReachingSources, TooMuchWork> {
        let Some(block) = self.block_of(index) else { return Ok(ReachingSources::default()) };
        let mut found = BTreeSet::new();
        let before = self.flow.graph[block].start..index;
        let condition = self.assumed.or_else(|| self.condition(index));
        if self.last_definitions(before, condition, register, &mut found)? {
            return Ok(Rc::new(found));
        }
        let entering = self.entering(block, register)?;
        if found.is_empty() {
            return Ok(entering);
        }
        self.work.spend(entering.len())?;
        found.extend(entering.iter());
        Ok(Rc::new(found))
    }

    /// Instructions whose result a register may hold at the start of a block.
    fn entering(&mut self, block: NodeIndex, register: Register) -> Result<ReachingSources, TooMuchWork> {
        if let Some(known) = self.entering.get(&(block, register)) {
            return Ok(Rc::clone(known));
        }
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![block];
        while let Some(block) = open.pop() {
            let mut before = self.flow.graph.neighbors_directed(block, Direction::Incoming).peekable();
            if before.peek().is_none() {
                found.insert(None);
            }
            for earlier in before {
                self.work.spend(1)?;
                let range = self.flow.graph[earlier].clone();
                if !seen.insert(earlier) || self.last_definitions(range, None, register, &mut found)? {
                    continue;
                }
                match self.entering.get(&(earlier, register)) {
                    Some(known) => {
                        self.work.spend(known.len())?;
                        found.extend(known.iter());
                    }
                    None => open.push(earlier),
                }
            }
        }
        let found = Rc::new(found);
        self.entering.insert((block, register), Rc::clone(&found));
        Ok(found)
    }

    /// The last definitions of a register among instructions in order, before a use in their block that executes under a
    /// condition. The flag is true if one of them replaces all before.
    fn last_definitions(
        &self,
        range: Range<usize>,
        condition: Option<GuardCondition>,
        register: Register,
        found: &mut BTreeSet<Option<usize>>,
    ) -> Result<bool, TooMuchWork> {
        for index in self.writers.within(range, register).iter().rev() {
            self.work.spend(1)?;
            found.insert(Some(*index));
            let executes_with_it = || condition.is_some() && self.condition(*index) == condition;
            if self.instructions[*index].is_unconditional() || executes_with_it() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The condition under which an instruction executes: two of a block that have one execute together. None without a
    /// guard. A predicate that is true where that of any lane is, as elected lanes compute it, stands for theirs.
    pub(super) fn condition(&self, index: usize) -> Option<GuardCondition> {
        let guard = self.instructions[index].guard?;
        let start = self.flow.block_of.get(index).map_or(index, |block| self.flow.graph[*block].start);
        let last = |before, register| self.writers.within(start..before, register).last().copied();
        let setter = last(index, guard.register);
        let any = setter.and_then(|setter| Some((setter, self.instructions[setter].any_lane()?)));
        let of_lanes = |(setter, register)| (Guard { register, ..guard }, last(setter, register));
        Some(any.filter(|_| !guard.negated).map_or((guard, setter), of_lanes))
    }
}
