//! Values of registers that are a constant plus something, such as addresses of mbarriers and tensor maps.
//!
//! A register is followed back through moves, additions and the like to constants, constant banks and things unknown.
//! Every path counts, so a value is a set. Around a loop an addition is taken no more than once. The start of a value
//! leaves out what the loop adds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use crate::definitions::Definitions;
use crate::graph::FlowGraph;
use crate::work::{TooMuchWork, Work};
use stallmap_sass::instruction::Instruction;
use stallmap_sass::register::Register;
use stallmap_sass::word::Sm;

mod expression;

use expression::{Expression, Operand, Term};

/// Maximum steps of one query. After them the result is unknown.
const MOST_STEPS: usize = 1 << 11;
/// Values that a register is followed to.
const MOST_VALUES: usize = 16;

/// A constant with the base that it is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value {
    pub(crate) base: Base,
    pub(crate) constant: i64,
}

/// The base to which a constant is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Base {
    /// Nothing: the value is the constant.
    Zero,
    /// The content of a constant bank.
    Bank {
        /// Index of the bank.
        bank: u8,
        /// Offset in it, bytes.
        offset: u32,
    },
    /// Something that is not known.
    Unknown,
}

impl Value {
    const UNKNOWN: Self = Self { base: Base::Unknown, constant: 0 };

    const fn number(constant: i64) -> Self {
        Self { base: Base::Zero, constant }
    }

    fn plus(self, other: Self) -> Self {
        let base = match (self.base, other.base) {
            (Base::Zero, base) | (base, Base::Zero) => base,
            _ => Base::Unknown,
        };
        Self { base, constant: self.constant.wrapping_add(other.constant) }
    }

    fn scaled(self, factor: i64) -> Self {
        match self.base {
            _ if factor == 1 => self,
            Base::Zero => Self::number(self.constant.wrapping_mul(factor)),
            _ => Self::UNKNOWN,
        }
    }
}

/// Asks for the values of registers before instructions.
pub(crate) struct Question<'a> {
    instructions: &'a [Instruction],
    flow: &'a FlowGraph,
    writers: &'a Definitions,
    sm: Sm,
    work: &'a Work,
    steps: usize,
    /// Definitions on the way to the present one.
    path: Vec<(usize, Register)>,
    /// Their places on it.
    on_path: BTreeMap<(usize, Register), usize>,
    /// The first place on the path to which the present definition led back.
    cut_at: usize,
    /// Values of definitions that do not depend on the path.
    values: BTreeMap<(usize, Register), BTreeSet<Value>>,
    /// The same without additions in loops.
    starts: BTreeMap<(usize, Register), BTreeSet<Value>>,
    /// Definitions that depend on themselves.
    circular: BTreeSet<(usize, Register)>,
    /// True to leave out additions in circular definitions.
    without_loops: bool,
    /// By block and register: definitions that may reach the block's start.
    entering: BTreeMap<(NodeIndex, Register), Sources>,
}

/// Instructions whose result a register may hold. `None` stands for a value from outside.
type Sources = Rc<BTreeSet<Option<usize>>>;

impl<'a> Question<'a> {
    pub(crate) fn new(
        instructions: &'a [Instruction],
        flow: &'a FlowGraph,
        writers: &'a Definitions,
        sm: Sm,
        work: &'a Work,
    ) -> Self {
        Self {
            instructions,
            flow,
            writers,
            sm,
            work,
            steps: 0,
            path: Vec::new(),
            on_path: BTreeMap::new(),
            cut_at: usize::MAX,
            values: BTreeMap::new(),
            starts: BTreeMap::new(),
            circular: BTreeSet::new(),
            without_loops: false,
            entering: BTreeMap::new(),
        }
    }

    /// Every value that a register can have before an instruction, loops taken no more than once.
    pub(crate) fn values(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<BTreeSet<Value>, TooMuchWork> {
        self.ask(index, register, false)
    }

    /// The values with which a register begins, without additions in loops.
    pub(crate) fn starts(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<BTreeSet<Value>, TooMuchWork> {
        // Once to find the circles, once to leave them out.
        let circles = self.circular.len();
        self.ask(index, register, false)?;
        if self.circular.len() != circles {
            self.starts.clear();
        }
        self.ask(index, register, true)
    }

    /// Offsets in constant bank 0 of words that are terms of a register's value, by any path.
    ///
    /// These are the lower halves of the pointers from which an address may be computed, and other numbers.
    pub(crate) fn bank_words(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<BTreeSet<u32>, TooMuchWork> {
        let (mut words, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), vec![(index, register)]);
        while let Some((index, register)) = open.pop() {
            for definition in self.definitions(index, register)?.iter().flatten() {
                self.work.spend(1)?;
                if !seen.insert((*definition, register)) {
                    continue;
                }
                for operand in Expression::of(&self.instructions[*definition], register, self.sm).parts() {
                    match operand {
                        Operand::Register(register) => open.push((*definition, register)),
                        Operand::Value(Value { base: Base::Bank { bank: 0, offset }, .. }) => {
                            words.insert(offset);
                        }
                        Operand::Value(_) => {}
                    }
                }
            }
        }
        Ok(words)
    }

    fn ask(
        &mut self,
        index: usize,
        register: Register,
        without_loops: bool,
    ) -> Result<BTreeSet<Value>, TooMuchWork> {
        (self.steps, self.without_loops, self.cut_at) = (MOST_STEPS, without_loops, usize::MAX);
        self.register(index, register)
    }

    /// Values of definitions that do not depend on the path, of the present kind.
    fn known(&mut self) -> &mut BTreeMap<(usize, Register), BTreeSet<Value>> {
        if self.without_loops { &mut self.starts } else { &mut self.values }
    }

    fn register(&mut self, index: usize, register: Register) -> Result<BTreeSet<Value>, TooMuchWork> {
        let mut values = BTreeSet::new();
        for definition in self.definitions(index, register)?.iter() {
            self.work.spend(1)?;
            match *definition {
                Some(definition) => values.extend(self.definition(definition, register)?),
                None => {
                    values.insert(Value::UNKNOWN);
                }
            }
        }
        Ok(limited(values))
    }

    /// Instructions whose result a register may hold before an instruction.
    fn definitions(&mut self, index: usize, register: Register) -> Result<Sources, TooMuchWork> {
        let Some(block) = self.flow.block_of.get(index).copied() else { return Ok(Sources::default()) };
        let mut found = BTreeSet::new();
        if self.last_definitions(self.flow.graph[block].start..index, register, &mut found)? {
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
    fn entering(&mut self, block: NodeIndex, register: Register) -> Result<Sources, TooMuchWork> {
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
                if !seen.insert(earlier) || self.last_definitions(range, register, &mut found)? {
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

    /// The last definitions of a register among instructions in order. The flag is true if one of them replaces all
    /// before.
    fn last_definitions(
        &self,
        range: Range<usize>,
        register: Register,
        found: &mut BTreeSet<Option<usize>>,
    ) -> Result<bool, TooMuchWork> {
        for index in self.writers.within(range, register).iter().rev() {
            self.work.spend(1)?;
            found.insert(Some(*index));
            if self.instructions[*index].is_unconditional() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The value that an instruction puts into a register.
    fn definition(&mut self, index: usize, register: Register) -> Result<BTreeSet<Value>, TooMuchWork> {
        let key = (index, register);
        if let Some(known) = self.known().get(&key) {
            return Ok(known.clone());
        }
        if let Some(place) = self.on_path.get(&key).copied() {
            self.work.spend(self.path.len() - place)?;
            self.circular.extend(self.path[place..].iter().copied());
            self.cut_at = self.cut_at.min(place);
            return Ok(BTreeSet::new());
        }
        self.work.spend(1)?;
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            self.cut_at = 0;
            return Ok(BTreeSet::from([Value::UNKNOWN]));
        }
        let depth = self.path.len();
        let cut_before = std::mem::replace(&mut self.cut_at, usize::MAX);
        self.path.push(key);
        self.on_path.insert(key, depth);
        let values = self.result(index, register)?;
        self.path.pop();
        self.on_path.remove(&key);
        // What does not depend on how it was reached is known for good.
        if self.cut_at >= depth {
            self.known().insert(key, values.clone());
            self.cut_at = cut_before;
        } else {
            self.cut_at = self.cut_at.min(cut_before);
        }
        Ok(values)
    }

    fn result(&mut self, index: usize, register: Register) -> Result<BTreeSet<Value>, TooMuchWork> {
        match Expression::of(&self.instructions[index], register, self.sm) {
            Expression::Unknown => Ok(BTreeSet::from([Value::UNKNOWN])),
            Expression::Sum(terms) => {
                let is_circular = self.without_loops && self.circular.contains(&(index, register));
                let is_kept = |term: &Term| !is_circular || matches!(term.operand, Operand::Register(_));
                let terms: Vec<Term> = terms.into_iter().filter(is_kept).collect();
                self.sum(index, &terms)
            }
            Expression::Either(operands) => {
                let mut values = BTreeSet::new();
                for operand in operands {
                    values.extend(self.operand(index, operand)?);
                }
                Ok(limited(values))
            }
        }
    }

    fn sum(&mut self, index: usize, terms: &[Term]) -> Result<BTreeSet<Value>, TooMuchWork> {
        let mut sums = BTreeSet::from([Value::number(0)]);
        for term in terms {
            let values = self.operand(index, term.operand)?;
            let scaled = values.iter().map(|value| value.scaled(term.factor));
            let scaled: BTreeSet<Value> = scaled.collect();
            let added = sums.iter().flat_map(|sum| scaled.iter().map(|value| sum.plus(*value)));
            sums = limited(added.collect());
        }
        Ok(sums)
    }

    fn operand(&mut self, index: usize, operand: Operand) -> Result<BTreeSet<Value>, TooMuchWork> {
        match operand {
            Operand::Register(register) => self.register(index, register),
            Operand::Value(value) => Ok(BTreeSet::from([value])),
        }
    }
}

fn limited(values: BTreeSet<Value>) -> BTreeSet<Value> {
    if values.len() <= MOST_VALUES { values } else { BTreeSet::from([Value::UNKNOWN]) }
}
