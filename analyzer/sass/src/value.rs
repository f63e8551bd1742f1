//! Register values of the form constant plus base, such as addresses of mbarriers and tensor maps.
//!
//! A register is followed back through moves, additions and similar operations to constants, constant banks and unknown
//! values. Every path counts, so a value is a set. Around a loop an addition is applied once or not. For start values,
//! the additions of loops are omitted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use petgraph::Direction;

use crate::graph::FlowGraph;
use crate::instruction::Instruction;
use crate::register::Register;
use crate::word::Sm;

mod expression;

use expression::{Expression, Operand, Term};

/// Maximum steps of one query, after which the result is unknown.
const MOST_STEPS: usize = 1 << 11;
/// Values that a register is followed to.
const MOST_VALUES: usize = 16;

/// A constant, and its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Value {
    pub(crate) base: Base,
    pub(crate) constant: i64,
}

/// Base of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Base {
    /// No base: the value is the constant.
    Zero,
    /// Content of a constant bank.
    Bank {
        /// Which bank.
        bank: u8,
        /// Offset in the bank, bytes.
        offset: u32,
    },
    /// An unknown base.
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

/// Computes the values of registers before instructions.
pub(crate) struct Question<'a> {
    instructions: &'a [Instruction],
    flow: &'a FlowGraph,
    sm: Sm,
    steps: usize,
    /// Definitions on the way to the present one.
    path: Vec<(usize, Register)>,
    /// The first depth on the path that the present definition refers back to.
    cut_at: usize,
    /// Values of definitions that do not depend on the path.
    values: BTreeMap<(usize, Register), BTreeSet<Value>>,
    /// The same without additions of loops.
    starts: BTreeMap<(usize, Register), BTreeSet<Value>>,
    /// Definitions that depend on themselves.
    circular: BTreeSet<(usize, Register)>,
    /// Omits the additions of circular definitions.
    without_loops: bool,
    definitions: BTreeMap<(usize, Register), Vec<Option<usize>>>,
}

impl<'a> Question<'a> {
    pub(crate) fn new(instructions: &'a [Instruction], flow: &'a FlowGraph, sm: Sm) -> Self {
        Self {
            instructions,
            flow,
            sm,
            steps: 0,
            path: Vec::new(),
            cut_at: usize::MAX,
            values: BTreeMap::new(),
            starts: BTreeMap::new(),
            circular: BTreeSet::new(),
            without_loops: false,
            definitions: BTreeMap::new(),
        }
    }

    /// Every value that a register can have before an instruction, with loops taken once or not.
    pub(crate) fn values(&mut self, index: usize, register: Register) -> BTreeSet<Value> {
        self.ask(index, register, false)
    }

    /// The initial values of a register, without additions of loops.
    pub(crate) fn starts(&mut self, index: usize, register: Register) -> BTreeSet<Value> {
        // Once to find the circles, once to leave them out.
        let circles = self.circular.len();
        self.ask(index, register, false);
        if self.circular.len() != circles {
            self.starts.clear();
        }
        self.ask(index, register, true)
    }

    fn ask(&mut self, index: usize, register: Register, without_loops: bool) -> BTreeSet<Value> {
        (self.steps, self.without_loops, self.cut_at) = (MOST_STEPS, without_loops, usize::MAX);
        self.register(index, register)
    }

    /// Values of definitions that do not depend on the path, of the present kind.
    fn known(&mut self) -> &mut BTreeMap<(usize, Register), BTreeSet<Value>> {
        if self.without_loops { &mut self.starts } else { &mut self.values }
    }

    fn register(&mut self, index: usize, register: Register) -> BTreeSet<Value> {
        let mut values = BTreeSet::new();
        for definition in self.definitions(index, register) {
            match definition {
                Some(definition) => values.extend(self.definition(definition, register)),
                None => {
                    values.insert(Value::UNKNOWN);
                }
            }
        }
        limited(values)
    }

    /// Instructions whose result a register may hold before an instruction. `None` is a value from outside.
    fn definitions(&mut self, index: usize, register: Register) -> Vec<Option<usize>> {
        if let Some(known) = self.definitions.get(&(index, register)) {
            return known.clone();
        }
        let Some(block) = self.flow.block_of.get(index) else { return Vec::new() };
        let mut found = BTreeSet::new();
        let mut seen = vec![false; self.flow.graph.node_count()];
        let mut open = vec![(*block, self.flow.graph[*block].start..index)];
        while let Some((block, range)) = open.pop() {
            let is_replaced = self.last_definitions(range, register, &mut found);
            if is_replaced {
                continue;
            }
            let mut before = self.flow.graph.neighbors_directed(block, Direction::Incoming).peekable();
            if before.peek().is_none() {
                found.insert(None);
            }
            for earlier in before {
                if !std::mem::replace(&mut seen[earlier.index()], true) {
                    open.push((earlier, self.flow.graph[earlier].clone()));
                }
            }
        }
        let found: Vec<_> = found.into_iter().collect();
        self.definitions.insert((index, register), found.clone());
        found
    }

    /// The last definitions of a register among instructions in order. Returns true if one of them replaces all before.
    fn last_definitions(
        &self,
        range: Range<usize>,
        register: Register,
        found: &mut BTreeSet<Option<usize>>,
    ) -> bool {
        for index in range.rev() {
            let instruction = &self.instructions[index];
            if instruction.writes.contains(register) {
                found.insert(Some(index));
                if instruction.is_unconditional() {
                    return true;
                }
            }
        }
        false
    }

    /// The value that an instruction writes to a register.
    fn definition(&mut self, index: usize, register: Register) -> BTreeSet<Value> {
        let key = (index, register);
        if let Some(known) = self.known().get(&key) {
            return known.clone();
        }
        if let Some(place) = self.path.iter().position(|on_path| *on_path == key) {
            self.circular.extend(self.path[place..].iter().copied());
            self.cut_at = self.cut_at.min(place);
            return BTreeSet::new();
        }
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            self.cut_at = 0;
            return BTreeSet::from([Value::UNKNOWN]);
        }
        let depth = self.path.len();
        let cut_before = std::mem::replace(&mut self.cut_at, usize::MAX);
        self.path.push(key);
        let values = self.result(index, register);
        self.path.pop();
        // A result that does not depend on the path is final.
        if self.cut_at >= depth {
            self.known().insert(key, values.clone());
            self.cut_at = cut_before;
        } else {
            self.cut_at = self.cut_at.min(cut_before);
        }
        values
    }

    fn result(&mut self, index: usize, register: Register) -> BTreeSet<Value> {
        match Expression::of(&self.instructions[index], register, self.sm) {
            Expression::Unknown => BTreeSet::from([Value::UNKNOWN]),
            Expression::Sum(terms) => {
                let is_circular = self.without_loops && self.circular.contains(&(index, register));
                let is_kept = |term: &Term| !is_circular || matches!(term.operand, Operand::Register(_));
                let terms: Vec<Term> = terms.into_iter().filter(is_kept).collect();
                self.sum(index, &terms)
            }
            Expression::Either(operands) => {
                let values = operands.into_iter().flat_map(|operand| self.operand(index, operand));
                limited(values.collect())
            }
        }
    }

    fn sum(&mut self, index: usize, terms: &[Term]) -> BTreeSet<Value> {
        let mut sums = BTreeSet::from([Value::number(0)]);
        for term in terms {
            let values = self.operand(index, term.operand);
            let scaled = values.iter().map(|value| value.scaled(term.factor));
            let scaled: BTreeSet<Value> = scaled.collect();
            let added = sums.iter().flat_map(|sum| scaled.iter().map(|value| sum.plus(*value)));
            sums = limited(added.collect());
        }
        sums
    }

    fn operand(&mut self, index: usize, operand: Operand) -> BTreeSet<Value> {
        match operand {
            Operand::Register(register) => self.register(index, register),
            Operand::Value(value) => BTreeSet::from([value]),
        }
    }
}

fn limited(values: BTreeSet<Value>) -> BTreeSet<Value> {
    if values.len() <= MOST_VALUES { values } else { BTreeSet::from([Value::UNKNOWN]) }
}
