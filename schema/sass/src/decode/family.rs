//! Rows of the tables: the common properties of a family of instructions.

use std::sync::LazyLock;

use crate::instruction::ExecutionUnit;
use crate::register::{RegisterFile, Registers};
use crate::word::{InstructionWord, Sm};

use super::flow::FlowRule;
use super::memory::MemoryRule;
use super::operand::{FamilyOperand, OperandCondition};
use super::{
    alu, asynchronous, barrier, branch, convert, global, half, misc, multiply, shared, shuffle, special,
    tensor, texture, uniform,
};

/// Families by their number: nine bits.
const FAMILIES: usize = 512;

/// Instructions that share a family, and their forms, architectures and selecting bits where the family is split.
#[derive(Clone, Copy)]
pub(super) struct OpFamily {
    /// Bits 0 to 8.
    code: u16,
    /// Bit n: form n (bits 9 to 11) belongs here.
    forms: u8,
    /// The architectures that have it.
    since: u32,
    until: u32,
    /// The condition that separates it from other families of its number.
    select: OperandCondition,
    pub(super) name: &'static str,
    pub(super) class: ExecutionUnit,
    pub(super) operands: &'static [FamilyOperand],
    /// Adds registers that a mask in the instruction names.
    pub(super) masked: Option<fn(InstructionWord, &mut Registers, &mut Registers)>,
    pub(super) guard: RegisterFile,
    pub(super) memory: Option<MemoryRule>,
    pub(super) flow: FlowRule,
}

/// A family with operands and nothing special.
pub(super) const fn family(
    code: u16,
    name: &'static str,
    class: ExecutionUnit,
    operands: &'static [FamilyOperand],
) -> OpFamily {
    OpFamily {
        code,
        forms: 0xff,
        since: 0,
        until: u32::MAX,
        select: OperandCondition::Always,
        name,
        class,
        operands,
        masked: None,
        guard: RegisterFile::Predicate,
        memory: None,
        flow: FlowRule::Next,
    }
}

impl OpFamily {
    pub(super) const fn since(self, sm: u32) -> Self {
        Self { since: sm, ..self }
    }

    pub(super) const fn until(self, sm: u32) -> Self {
        Self { until: sm, ..self }
    }

    pub(super) const fn select(self, select: OperandCondition) -> Self {
        Self { select, ..self }
    }

    pub(super) const fn forms(self, forms: u8) -> Self {
        Self { forms, ..self }
    }

    pub(super) const fn memory(self, rule: MemoryRule) -> Self {
        Self { memory: Some(rule), ..self }
    }

    pub(super) const fn flow(self, flow: FlowRule) -> Self {
        Self { flow, ..self }
    }

    pub(super) const fn masked(self, add: fn(InstructionWord, &mut Registers, &mut Registers)) -> Self {
        Self { masked: Some(add), ..self }
    }

    /// Its guard is a uniform predicate.
    pub(super) const fn uniform_guard(self) -> Self {
        Self { guard: RegisterFile::UniformPredicate, ..self }
    }

    fn fits(&self, word: InstructionWord, sm: Sm) -> bool {
        let form = word.byte(9) & 7;
        self.forms >> form & 1 == 1 && self.since <= sm.0 && sm.0 <= self.until && self.select.holds(word)
    }
}

/// The family of an instruction: the first row of its number that fits.
pub(super) fn find(word: InstructionWord, sm: Sm) -> Option<&'static OpFamily> {
    let code = usize::from(word.family());
    let rows = INDEX.first.get(code).zip(INDEX.first.get(code + 1));
    let (first, end) = rows.map(|(first, end)| (*first, *end))?;
    INDEX.rows.get(first..end)?.iter().find(|family| family.fits(word, sm))
}

/// All rows by number.
struct FamilyIndex {
    rows: Vec<OpFamily>,
    /// By number: its first row. One more at the end.
    first: Vec<usize>,
}

static INDEX: LazyLock<FamilyIndex> = LazyLock::new(|| {
    let mut rows: Vec<OpFamily> = TABLES.iter().flat_map(|table| table.iter().copied()).collect();
    rows.sort_by_key(|family| family.code);
    let first =
        (0..=FAMILIES).map(|code| rows.partition_point(|family| usize::from(family.code) < code)).collect();
    FamilyIndex { rows, first }
});

static TABLES: [&[OpFamily]; 15] = [
    alu::FAMILIES,
    multiply::FAMILIES,
    half::FAMILIES,
    tensor::FAMILIES,
    convert::FAMILIES,
    special::FAMILIES,
    uniform::FAMILIES,
    global::FAMILIES,
    shared::FAMILIES,
    texture::FAMILIES,
    asynchronous::FAMILIES,
    shuffle::FAMILIES,
    barrier::FAMILIES,
    branch::FAMILIES,
    misc::FAMILIES,
];
