//! Matrix multiplications.

use crate::instruction::ExecutionUnit;
use crate::word::InstructionWord;

use super::family::{OpFamily, family};
use super::matrix;
use super::operand::{
    A, D, FamilyOperand, OperandCondition, RegisterCount, UA, UQ, flipped_uniform_read, read, uniform_read,
};

const fn tensor(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Tensor, operands)
}

/// Registers of the result (and of the addend), of the first and of the second matrix.
const fn product(
    result: fn(InstructionWord) -> u16,
    first: fn(InstructionWord) -> u16,
    second: fn(InstructionWord) -> u16,
    sparse: OperandCondition,
) -> [FamilyOperand; 5] {
    [
        D.width(RegisterCount::Rule(result)),
        A.width(RegisterCount::Rule(first)),
        read(32).width(RegisterCount::Rule(second)),
        read(64).width(RegisterCount::Rule(result)),
        // Which elements of a sparse matrix are stored.
        read(40).when(sparse),
    ]
}

const NEVER: OperandCondition = OperandCondition::Form(0);
static HALF: [FamilyOperand; 5] = product(
    matrix::half_result,
    matrix::half_first,
    matrix::half_second,
    OperandCondition::Set(matrix::SPARSE_HALF),
);
static INTEGER: [FamilyOperand; 5] = product(
    matrix::integer_result,
    matrix::integer_first,
    matrix::integer_second,
    OperandCondition::Set(matrix::SPARSE_INTEGER),
);
static BIT: [FamilyOperand; 5] = product(matrix::bit_result, matrix::bit_first, matrix::bit_second, NEVER);
static DOUBLE: [FamilyOperand; 5] =
    product(matrix::double_result, matrix::double_first, matrix::double_second, NEVER);
static QUARTER: [FamilyOperand; 5] = product(
    matrix::quarter_result,
    matrix::quarter_first,
    matrix::quarter_second,
    OperandCondition::Set(matrix::SPARSE_QUARTER),
);
/// A step of a product of 8x8x4, on sm_70.
static STEP: [FamilyOperand; 4] = [D.wide(2), A.wide(2), read(32).wide(2), read(64).wide(2)];
/// With a scale for a block of elements of each matrix.
static SCALED: [FamilyOperand; 6] = [
    D.wide(4),
    A.wide(4),
    read(32).width(RegisterCount::Rule(matrix::scaled_second)),
    read(64).wide(4),
    read(40),
    read(52),
];

/// Matrices of four warps. Both are descriptors in four uniform registers, or the first is in registers.
const fn group_shared(result: fn(InstructionWord) -> u16) -> [FamilyOperand; 5] {
    [
        D.width(RegisterCount::Rule(result)),
        uniform_read(24).wide(4),
        read(64).width(RegisterCount::Rule(result)),
        ACCUMULATE,
        CHOSEN,
    ]
}

const fn group_registers(result: fn(InstructionWord) -> u16) -> [FamilyOperand; 6] {
    [
        D.width(RegisterCount::Rule(result)),
        A.wide(4),
        uniform_read(32).wide(4),
        read(64).width(RegisterCount::Rule(result)),
        ACCUMULATE,
        CHOSEN,
    ]
}

/// Predicate that adds to the accumulator.
const ACCUMULATE: FamilyOperand = flipped_uniform_read(87);
/// Selector of the stored elements of a sparse matrix.
const CHOSEN: FamilyOperand = read(40).when(OperandCondition::Set(matrix::SPARSE_HALF));

static GROUP_SHARED: [FamilyOperand; 5] = group_shared(matrix::group_result);
static GROUP_REGISTERS: [FamilyOperand; 6] = group_registers(matrix::group_result);
static INTEGER_GROUP_SHARED: [FamilyOperand; 5] = group_shared(matrix::integer_group_result);
static INTEGER_GROUP_REGISTERS: [FamilyOperand; 6] = group_registers(matrix::integer_group_result);
static BIT_GROUP_SHARED: [FamilyOperand; 5] = group_shared(matrix::bit_group_result);
static BIT_GROUP_REGISTERS: [FamilyOperand; 6] = group_registers(matrix::bit_group_result);

/// tcgen05: matrices by descriptors or in tensor memory, all in uniform registers.
static FIFTH: [FamilyOperand; 6] = [
    UA.width(RegisterCount::Rule(fifth_first)),
    uniform_read(32).wide(2),
    // The result's address in tensor memory, and the instruction descriptor.
    uniform_read(40).wide(2),
    uniform_read(48).width(RegisterCount::Rule(fifth_extra)),
    uniform_read(64),
    UQ,
];

/// The first matrix: a descriptor, or an address in tensor memory.
fn fifth_first(word: InstructionWord) -> u16 {
    if FROM_TENSOR_MEMORY.holds(word) { 1 } else { 2 }
}

const FROM_TENSOR_MEMORY: OperandCondition = OperandCondition::Form(1 << 4 | 1 << 5);

/// Addresses of scales, or a mask of lanes.
fn fifth_extra(word: InstructionWord) -> u16 {
    if SCALED_FORM.holds(word) || BLOCK_SCALED.holds(word) { 2 } else { 4 }
}

const SCALED_FORM: OperandCondition = OperandCondition::Form(1 << 5 | 1 << 6);
/// UTCOMMA: the kind whose blocks always have scales.
const BLOCK_SCALED: OperandCondition = OperandCondition::Set(63);

pub(super) static FAMILIES: &[OpFamily] = &[
    tensor(0x036, "HMMA", &STEP).until(89),
    tensor(0x037, "IMMA", &INTEGER),
    family(0x03a, "MOVM", ExecutionUnit::Shuffle, &[D.width(RegisterCount::PairIf(75)), A]),
    tensor(0x03c, "HMMA", &HALF),
    tensor(0x03d, "BMMA", &BIT),
    tensor(0x03f, "DMMA", &DOUBLE),
    tensor(0x07a, "QMMA", &SCALED).since(100).forms(1 << 2).masked(matrix::scale_selector),
    tensor(0x07a, "QMMA", &QUARTER),
    tensor(0x07f, "OMMA", &SCALED).since(100).masked(matrix::scale_selector),
    tensor(0x1e6, "UTCSHIFT", &[UA]).uniform_guard(),
    tensor(0x1e7, "UTCCP", &[UA, uniform_read(32).wide(2)]).uniform_guard(),
    tensor(0x1ea, "UTCOMMA", &FIFTH).uniform_guard().select(BLOCK_SCALED),
    tensor(0x1ea, "UTCHMMA", &FIFTH).uniform_guard().select(OperandCondition::Is(72, 2, 0)),
    tensor(0x1ea, "UTCIMMA", &FIFTH).uniform_guard().select(OperandCondition::Is(72, 2, 1)),
    tensor(0x1ea, "UTCQMMA", &FIFTH).uniform_guard(),
    tensor(0x1f0, "HGMMA", &GROUP_REGISTERS).forms(1 << 6),
    tensor(0x1f0, "HGMMA", &GROUP_SHARED),
    tensor(0x1f1, "IGMMA", &INTEGER_GROUP_REGISTERS).forms(1 << 6),
    tensor(0x1f1, "IGMMA", &INTEGER_GROUP_SHARED),
    tensor(0x1f2, "BGMMA", &BIT_GROUP_REGISTERS).forms(1 << 6),
    tensor(0x1f2, "BGMMA", &BIT_GROUP_SHARED),
    tensor(0x1f3, "QGMMA", &GROUP_REGISTERS).forms(1 << 6),
    tensor(0x1f3, "QGMMA", &GROUP_SHARED),
];
