//! Values of registers that are a constant plus something, such as addresses of mbarriers and tensor maps.
//!
//! A register is followed back through moves, additions and the like to constants, constant banks and things unknown.
//! Every path counts, so a value is a set. Around a loop an addition is taken no more than once. The start of a value
//! leaves out what the loop adds, which is its walk.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use petgraph::graph::NodeIndex;

use crate::instruction::SassInstruction;
use crate::register::Register;
use crate::slice::definitions::RegisterWrites;
use crate::slice::graph::FlowGraph;
use crate::slice::mbarrier::ADDRESS_BITS;
use crate::slice::work::{AnalysisBudget, TooMuchWork};
use crate::word::Sm;

mod circles;
mod exchange;
mod expression;
mod reaching;
mod stack;
mod walk;

use circles::{DefinitionCycles, RegisterDefinition};
use exchange::RegisterExchanges;
use expression::{ExpressionOperand, ResultExpression, SumTerm};
use reaching::{GuardCondition, ReachingSources};
use stack::StackWords;
pub(crate) use walk::LoopWalk;

/// Maximum steps of one query. After them the result is unknown.
const MAX_STEPS: usize = 1 << 10;
/// Values that a register is followed to.
const MAX_VALUES: usize = 16;

/// A constant with the base that it is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BasedConstant {
    pub(crate) base: ConstantBase,
    pub(crate) constant: i64,
    /// The additions of a loop to a start. None in other values.
    pub(crate) walk: LoopWalk,
}

/// The base to which a constant is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ConstantBase {
    /// Nothing: the value is the constant.
    Zero,
    /// The content of a constant bank.
    Bank {
        /// Index of the bank.
        bank: u8,
        /// Offset in it, bytes.
        offset: u32,
    },
    /// Something that is not known: equal names stand for equal contents, different ones for any.
    Unknown(u64),
}

impl ConstantBase {
    /// A base that is computed from others in some way.
    fn from_parts(parts: impl Hash) -> Self {
        let mut name = DefaultHasher::new();
        parts.hash(&mut name);
        Self::Unknown(name.finish())
    }
}

impl BasedConstant {
    /// Nothing is known, not even that it is equal to another.
    const ANY: Self = Self::from_base(ConstantBase::Unknown(0));

    const fn from_base(base: ConstantBase) -> Self {
        Self { base, constant: 0, walk: LoopWalk::NONE }
    }

    const fn number(constant: i64) -> Self {
        Self { constant, ..Self::from_base(ConstantBase::Zero) }
    }

    fn plus(self, other: Self) -> Self {
        let base = match (self.base, other.base) {
            (ConstantBase::Zero, base) | (base, ConstantBase::Zero) => base,
            (one, other) => ConstantBase::from_parts((one.min(other), one.max(other))),
        };
        let walk = self.walk.with(other.walk);
        Self { base, constant: self.constant.wrapping_add(other.constant), walk }
    }

    fn scaled(self, factor: i64) -> Self {
        let base = match self.base {
            _ if factor == 1 => return self,
            ConstantBase::Zero => ConstantBase::Zero,
            base => ConstantBase::from_parts((base, factor)),
        };
        // A number that is not known times the bytes of a stage is any of the stages.
        let any = if base == ConstantBase::Zero {
            LoopWalk::NONE
        } else {
            LoopWalk { step: factor.saturating_abs(), bytes: 0 }
        };
        let walk = self.walk.scaled(factor).with(any);
        Self { base, constant: self.constant.wrapping_mul(factor), walk }
    }
}

/// Terms of a value that one instruction computes.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseTerms {
    /// Registers, each before the instruction that adds it.
    pub(crate) registers: Vec<RegisterDefinition>,
    /// Offsets of words of constant bank 0.
    pub(crate) words: BTreeSet<u32>,
    /// True if one of the terms is the value. Else it is their sum, with other terms.
    pub(crate) is_choice: bool,
}

/// Asks for the values of registers before instructions.
pub(crate) struct ValueQuery<'a> {
    instructions: &'a [SassInstruction],
    flow: &'a FlowGraph,
    writers: &'a RegisterWrites,
    stack: StackWords,
    exchanges: RegisterExchanges,
    sm: Sm,
    work: &'a AnalysisBudget,
    steps: usize,
    /// Definitions on the way to the present one.
    path: Vec<RegisterDefinition>,
    /// Their positions on it.
    on_path: BTreeMap<RegisterDefinition, usize>,
    /// The first position on the path to which the present definition led back.
    cut_at: usize,
    /// Values of definitions that do not depend on the path.
    values: BTreeMap<RegisterDefinition, BTreeSet<BasedConstant>>,
    /// The same without additions in loops.
    starts: BTreeMap<RegisterDefinition, BTreeSet<BasedConstant>>,
    /// Definitions that depend on themselves.
    circles: DefinitionCycles,
    /// True to leave out additions in circular definitions.
    without_loops: bool,
    /// The condition under which the use executes, while definitions before it in its block are followed.
    assumed: Option<GuardCondition>,
    /// By block and register: definitions that may reach the block's start.
    entering: BTreeMap<(NodeIndex, Register), ReachingSources>,
}

impl<'a> ValueQuery<'a> {
    pub(crate) fn new(
        instructions: &'a [SassInstruction],
        flow: &'a FlowGraph,
        writers: &'a RegisterWrites,
        sm: Sm,
        work: &'a AnalysisBudget,
    ) -> Self {
        Self {
            instructions,
            flow,
            writers,
            stack: StackWords::new(instructions),
            exchanges: RegisterExchanges::new(instructions, flow),
            sm,
            work,
            steps: 0,
            path: Vec::new(),
            on_path: BTreeMap::new(),
            cut_at: usize::MAX,
            values: BTreeMap::new(),
            starts: BTreeMap::new(),
            circles: DefinitionCycles::default(),
            without_loops: false,
            assumed: None,
            entering: BTreeMap::new(),
        }
    }

    /// Every value that a register can have before an instruction, loops taken no more than once.
    pub(crate) fn values(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        self.ask(index, register, false)
    }

    /// The values with which a register begins, without additions in loops.
    pub(crate) fn starts(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        // Once to find the circles, once to leave them out.
        let changes = self.circles.changes();
        self.ask(index, register, false)?;
        if self.circles.changes() != changes {
            self.starts.clear();
        }
        self.ask(index, register, true)
    }

    /// The values with which the sum of registers and a constant begins, without additions in loops.
    pub(crate) fn sums(
        &mut self,
        index: usize,
        registers: impl IntoIterator<Item = Register>,
        constant: i64,
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        let mut sums = BTreeSet::from([BasedConstant::number(constant)]);
        for register in registers {
            let values = self.starts(index, register)?;
            let added = sums.iter().flat_map(|sum| values.iter().map(|value| sum.plus(*value)));
            sums = limited(added.collect());
        }
        Ok(sums)
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
                open.extend(self.saved(*definition, register));
                for operand in
                    ResultExpression::for_register(&self.instructions[*definition], register, self.sm).parts()
                {
                    match operand {
                        ExpressionOperand::Register(register) => open.push((*definition, register)),
                        ExpressionOperand::Value(BasedConstant {
                            base: ConstantBase::Bank { bank: 0, offset },
                            ..
                        }) => {
                            words.insert(offset);
                        }
                        ExpressionOperand::Value(_) | ExpressionOperand::Product => {}
                    }
                }
            }
        }
        Ok(words)
    }

    /// The values with which a register begins without the index that is added in elements of so many bytes: where the
    /// array begins. None if no index is added.
    pub(crate) fn array_starts(
        &mut self,
        index: usize,
        register: Register,
        element_bytes: i64,
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![(index, register, 0_i64)];
        while let Some((index, register, added)) = open.pop() {
            for definition in self.definitions_before(index, register)? {
                self.work.spend(1)?;
                let expression =
                    ResultExpression::for_register(&self.instructions[definition], register, self.sm);
                let ResultExpression::Sum(terms) = expression else { continue };
                let is_index = |term: &SumTerm| term.factor != 0 && term.factor % element_bytes == 0;
                let rest: Vec<SumTerm> = terms.iter().filter(|term| !is_index(term)).copied().collect();
                if rest.len() < terms.len() {
                    (self.steps, self.without_loops, self.cut_at) = (MAX_STEPS, false, usize::MAX);
                    let starts = self.sum(definition, &rest)?.into_iter();
                    found.extend(starts.map(|start| start.plus(BasedConstant::number(added))));
                } else if let Some((source, number)) = expression::moved(&terms)
                    && seen.insert((definition, source))
                {
                    open.push((definition, source, added.wrapping_add(number)));
                }
            }
        }
        Ok(found)
    }

    /// The registers, before the instructions that keep them on the stack, of which an instruction takes one back. Or the
    /// one whose value it takes in an exchange.
    pub(crate) fn saved(&self, index: usize, register: Register) -> Vec<(usize, Register)> {
        match self.exchanges.taken(index) {
            Some(taken) => vec![taken],
            None => self.stack.saved(&self.instructions[index], register).to_vec(),
        }
    }

    /// Terms of a register's value before an instruction, by each instruction that may have put it there.
    pub(crate) fn base_terms(
        &mut self,
        (index, register): RegisterDefinition,
    ) -> Result<Vec<BaseTerms>, TooMuchWork> {
        let mut all = Vec::new();
        for definition in self.definitions(index, register)?.iter() {
            self.work.spend(1)?;
            let mut terms = BaseTerms::default();
            if let Some(definition) = *definition {
                let result =
                    ResultExpression::for_register(&self.instructions[definition], register, self.sm);
                terms.is_choice = matches!(result, ResultExpression::Either(_));
                for operand in result.parts() {
                    match operand {
                        ExpressionOperand::Register(register) => terms.registers.push((definition, register)),
                        ExpressionOperand::Value(BasedConstant {
                            base: ConstantBase::Bank { bank: 0, offset },
                            ..
                        }) => {
                            terms.words.insert(offset);
                        }
                        ExpressionOperand::Value(_) | ExpressionOperand::Product => {}
                    }
                }
            }
            all.push(terms);
        }
        Ok(all)
    }

    fn ask(
        &mut self,
        index: usize,
        register: Register,
        without_loops: bool,
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        (self.steps, self.without_loops, self.cut_at) = (MAX_STEPS, without_loops, usize::MAX);
        self.assumed = self.instructions.get(index).and_then(|_| self.condition(index));
        let values = self.register(index, register);
        self.assumed = None;
        values
    }

    /// Values of definitions that do not depend on the path, of the present kind.
    fn known(&mut self) -> &mut BTreeMap<RegisterDefinition, BTreeSet<BasedConstant>> {
        if self.without_loops { &mut self.starts } else { &mut self.values }
    }

    fn register(&mut self, index: usize, register: Register) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        let mut values = BTreeSet::new();
        for definition in self.definitions(index, register)?.iter() {
            self.work.spend(1)?;
            match *definition {
                Some(definition) => {
                    let is_before = definition < index && self.block_of(definition) == self.block_of(index);
                    let assumed = self.assumed;
                    self.assumed = assumed.filter(|_| is_before);
                    values.extend(self.definition(definition, register)?);
                    self.assumed = assumed;
                }
                None => {
                    values.insert(BasedConstant::from_base(ConstantBase::from_parts(register)));
                }
            }
        }
        Ok(limited(values))
    }

    /// The value that an instruction puts into a register.
    fn definition(
        &mut self,
        index: usize,
        register: Register,
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        let key = (index, register);
        let is_assuming = self.assumed.is_some();
        if let Some(known) = self.known().get(&key).filter(|_| !is_assuming) {
            return Ok(known.clone());
        }
        if let Some(position) = self.on_path.get(&key).copied() {
            self.work.spend(self.path.len() - position)?;
            self.circles.join(&self.path[position..]);
            self.cut_at = self.cut_at.min(position);
            return Ok(BTreeSet::new());
        }
        self.work.spend(1)?;
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            self.cut_at = 0;
            return Ok(BTreeSet::from([BasedConstant::ANY]));
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
            if !is_assuming {
                self.known().insert(key, values.clone());
            }
            self.cut_at = cut_before;
        } else {
            self.cut_at = self.cut_at.min(cut_before);
        }
        Ok(values)
    }

    fn result(&mut self, index: usize, register: Register) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        let saved = self.saved(index, register);
        if !saved.is_empty() {
            let mut values = BTreeSet::new();
            for (store, register) in saved {
                values.extend(self.register(store, register)?);
            }
            return Ok(limited(values));
        }
        match ResultExpression::for_register(&self.instructions[index], register, self.sm) {
            ResultExpression::Unknown => {
                Ok(BTreeSet::from([BasedConstant::from_base(self.unknown(index, register))]))
            }
            ResultExpression::Sum(terms)
                if self.without_loops && self.circles.contains((index, register)) =>
            {
                self.circular_sum((index, register), &terms)
            }
            ResultExpression::Sum(terms) => self.sum(index, &terms),
            ResultExpression::Either(operands) => {
                let mut values = BTreeSet::new();
                for operand in operands {
                    values.extend(self.operand(index, operand)?);
                }
                Ok(limited(values))
            }
        }
    }

    /// The name of what an instruction computes in a way that is not followed. Equal instructions that read no register
    /// compute the same.
    fn unknown(&self, index: usize, register: Register) -> ConstantBase {
        let SassInstruction { word, reads, .. } = &self.instructions[index];
        let selector = register.index.wrapping_sub(word.byte(16));
        let is_own = !reads.is_empty();
        ConstantBase::from_parts((is_own.then_some(index), word.computation(), selector))
    }

    /// A sum in a circle without what the circle adds, which becomes the walk of its values.
    fn circular_sum(
        &mut self,
        sum: RegisterDefinition,
        terms: &[SumTerm],
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        let (index, (mut circular, mut added)) = (sum.0, (Vec::new(), Vec::new()));
        for term in terms {
            let list = if self.leads_back(sum, term.operand)? { &mut circular } else { &mut added };
            list.push(*term);
        }
        let added = self.sum(index, &added)?;
        let walk = LoopWalk::of_added(
            added.iter().filter(|one| one.base == ConstantBase::Zero).map(|one| one.constant),
        );
        let starts = self.sum(index, &circular)?;
        Ok(starts.into_iter().map(|value| BasedConstant { walk: value.walk.with(walk), ..value }).collect())
    }

    /// True if an operand of a definition may come from that definition.
    fn leads_back(
        &mut self,
        sum: RegisterDefinition,
        operand: ExpressionOperand,
    ) -> Result<bool, TooMuchWork> {
        let ExpressionOperand::Register(register) = operand else { return Ok(false) };
        let definitions = self.definitions(sum.0, register)?;
        self.work.spend(definitions.len())?;
        Ok(definitions
            .iter()
            .flatten()
            .any(|definition| self.circles.are_joined(sum, (*definition, register))))
    }

    fn sum(&mut self, index: usize, terms: &[SumTerm]) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        let mut sums = BTreeSet::from([BasedConstant::number(0)]);
        // The rank of a block in its cluster stands above an address in shared memory.
        let is_rank = |term: &SumTerm| self.without_loops && term.factor % (1 << ADDRESS_BITS) == 0;
        let terms: Vec<SumTerm> = terms.iter().filter(|term| !is_rank(term)).copied().collect();
        for term in &terms {
            let values = self.operand(index, term.operand)?;
            let scaled = values.iter().map(|value| value.scaled(term.factor));
            let scaled: BTreeSet<BasedConstant> = scaled.collect();
            let added = sums.iter().flat_map(|sum| scaled.iter().map(|value| sum.plus(*value)));
            sums = limited(added.collect());
        }
        Ok(sums)
    }

    fn operand(
        &mut self,
        index: usize,
        operand: ExpressionOperand,
    ) -> Result<BTreeSet<BasedConstant>, TooMuchWork> {
        match operand {
            ExpressionOperand::Register(register) => self.register(index, register),
            ExpressionOperand::Value(value) => Ok(BTreeSet::from([value])),
            ExpressionOperand::Product => {
                Ok(BTreeSet::from([BasedConstant::from_base(ConstantBase::from_parts((index, "product")))]))
            }
        }
    }
}

/// Each value once, with all of its walk.
fn limited(values: BTreeSet<BasedConstant>) -> BTreeSet<BasedConstant> {
    let mut walks: BTreeMap<(ConstantBase, i64), LoopWalk> = BTreeMap::new();
    for BasedConstant { base, constant, walk } in values {
        walks.entry((base, constant)).and_modify(|known| *known = known.with(walk)).or_insert(walk);
    }
    if walks.len() > MAX_VALUES {
        return BTreeSet::from([BasedConstant::ANY]);
    }
    walks.into_iter().map(|((base, constant), walk)| BasedConstant { base, constant, walk }).collect()
}
