//! Textures and surfaces. Coordinates and other operands of a lookup are packed into two vectors of registers.

use crate::instruction::{ExecutionUnit, MemoryEffect, MemorySpace};
use crate::word::InstructionWord;

use super::family::{OpFamily, family};
use super::memory::{AddressOffset, LaneWidth, access};
use super::operand::{
    A, D, FamilyOperand, OperandCondition, P, RegisterCount, predicate_write, read, uniform_read, write,
};

pub(super) static FAMILIES: &[OpFamily] = &[
    texture(0x160, "TEX", &LOOKUP),
    texture(0x161, "TEX", &LOOKUP),
    texture(0x163, "TLD4", &GATHER),
    texture(0x164, "TLD4", &GATHER),
    texture(0x166, "TLD", &FETCH),
    texture(0x167, "TLD", &FETCH),
    texture(0x169, "TMML", &GATHER),
    texture(0x16a, "TMML", &GATHER),
    texture(0x16c, "TXD", &GRADIENT),
    texture(0x16d, "TXD", &GRADIENT),
    texture(0x16f, "TXQ", &QUERY),
    texture(0x170, "TXQ", &QUERY),
    surface(0x199, "SULD", &SURFACE_LOAD, MemoryEffect::Read),
    surface(0x19a, "SULD", &SURFACE_LOAD, MemoryEffect::Read),
    surface(0x19b, "SUST", &SURFACE_PIXEL, MemoryEffect::Write),
    surface(0x19c, "SUST", &SURFACE_PIXEL, MemoryEffect::Write),
    surface(0x19d, "SUST", &SURFACE_STORE, MemoryEffect::Write),
    surface(0x19e, "SUST", &SURFACE_STORE, MemoryEffect::Write),
    surface(0x19f, "SURED", &SURFACE_REDUCTION, MemoryEffect::Reduction),
    surface(0x1a0, "SURED", &SURFACE_REDUCTION, MemoryEffect::Reduction),
];

const fn texture(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    let rule = access(MemorySpace::Texture, MemoryEffect::Read, LaneWidth::Unknown, AddressOffset::None);
    family(code, name, ExecutionUnit::Texture, operands).memory(rule)
}

const fn surface(
    code: u16,
    name: &'static str,
    operands: &'static [FamilyOperand],
    kind: MemoryEffect,
) -> OpFamily {
    let rule = access(MemorySpace::Texture, kind, LaneWidth::Unknown, AddressOffset::None);
    family(code, name, ExecutionUnit::Texture, operands).memory(rule)
}

/// Up to two components of the result. The rest follows in other registers.
const LOW: FamilyOperand = D.width(RegisterCount::Rule(low_components));
const HIGH: FamilyOperand = write(64).width(RegisterCount::Rule(high_components));
/// The texture, where a uniform register holds its handle.
const HANDLE: FamilyOperand = uniform_read(40).wide(2).when(UNIFORM);
const UNIFORM: OperandCondition = OperandCondition::Form(1 << 7);

static LOOKUP: [FamilyOperand; 6] =
    [LOW, HIGH, P, vector(24, lookup_first), vector(32, lookup_second), HANDLE];
static GATHER: [FamilyOperand; 6] =
    [LOW, HIGH, P, vector(24, gather_first), vector(32, gather_second), HANDLE];
static FETCH: [FamilyOperand; 6] = [LOW, HIGH, P, vector(24, fetch_first), vector(32, fetch_second), HANDLE];
static GRADIENT: [FamilyOperand; 6] =
    [LOW, HIGH, P, vector(24, gradient_first), vector(32, gradient_second), HANDLE];
static QUERY: [FamilyOperand; 4] = [LOW, HIGH, A, HANDLE];

const fn vector(start: u32, width: fn(InstructionWord) -> u16) -> FamilyOperand {
    read(start).width(RegisterCount::Rule(width))
}

/// Components that the mask asks for. Two of 16 bits share a register.
fn components(word: InstructionWord) -> u16 {
    let components: u16 = (72..76).map(|bit| u16::from(word.bit(bit))).sum();
    if word.bits(79, 2) == 0 { components } else { components.div_ceil(2) }
}

fn low_components(word: InstructionWord) -> u16 {
    components(word).min(2)
}

fn high_components(word: InstructionWord) -> u16 {
    components(word).saturating_sub(2)
}

/// Operands of a lookup: coordinates, then the rest.
struct TextureOperands {
    coordinates: u16,
    rest: u16,
}

impl TextureOperands {
    fn new(word: InstructionWord, rest: &[bool]) -> Self {
        let rest = rest.iter().chain([&is_bindless(word)]).map(|part| u16::from(*part)).sum();
        Self { coordinates: coordinates(word), rest }
    }

    /// Packed, the two vectors share all that there is. Else the second has the rest.
    fn first(&self, word: InstructionWord) -> u16 {
        if is_packed(word) { (self.coordinates + self.rest).div_ceil(2) } else { self.coordinates }
    }

    fn second(&self, word: InstructionWord) -> u16 {
        if is_packed(word) { (self.coordinates + self.rest) - self.first(word) } else { self.rest }
    }
}

/// `.SCR`
fn is_packed(word: InstructionWord) -> bool {
    word.bit(60)
}

/// `.B`: a general register holds the handle.
fn is_bindless(word: InstructionWord) -> bool {
    OperandCondition::Form(1 << 1).holds(word)
}

/// 1D, 2D, 3D, CUBE, and arrays of them.
fn coordinates(word: InstructionWord) -> u16 {
    let one = match word.bits(61, 2) {
        0 => 1,
        1 => 2,
        _ => 3,
    };
    one + u16::from(word.bit(63))
}

/// Automatic level or level zero need no operand. A bias, a level and a clamp are one each. The uniform form stores the
/// lowest bit elsewhere since sm_100, where bit 87 is the next.
fn level_operands(word: InstructionWord) -> u16 {
    let mode = if word.bit(59) && !word.bit(88) { 3 } else { word.bits(87, 3) };
    match mode {
        0 | 1 => 0,
        5 => 2,
        _ => 1,
    }
}

fn lookup(word: InstructionWord) -> TextureOperands {
    let levels = level_operands(word);
    TextureOperands::new(word, &[levels > 0, levels > 1, word.bit(76), word.bit(78)])
}

fn lookup_first(word: InstructionWord) -> u16 {
    lookup(word).first(word)
}

fn lookup_second(word: InstructionWord) -> u16 {
    lookup(word).second(word)
}

/// Offsets (one register, or two for a texel each), and the value to compare with.
fn gather(word: InstructionWord) -> TextureOperands {
    TextureOperands::new(word, &[word.bit(76), word.bit(77), word.bit(77), word.bit(78)])
}

fn gather_first(word: InstructionWord) -> u16 {
    gather(word).first(word)
}

fn gather_second(word: InstructionWord) -> u16 {
    gather(word).second(word)
}

/// A level, an offset, a sample.
fn fetch(word: InstructionWord) -> TextureOperands {
    let has_level = word.bits(87, 2) == if UNIFORM.holds(word) && !word.bit(88) { 2 } else { 3 };
    TextureOperands::new(word, &[has_level, word.bit(76), word.bits(77, 2) != 0])
}

fn fetch_first(word: InstructionWord) -> u16 {
    fetch(word).first(word)
}

fn fetch_second(word: InstructionWord) -> u16 {
    fetch(word).second(word)
}

fn gradient_first(word: InstructionWord) -> u16 {
    coordinates(word) + u16::from(word.bit(76)) + u16::from(is_bindless(word))
}

/// Two derivatives a dimension.
fn gradient_second(word: InstructionWord) -> u16 {
    2 * (coordinates(word) - u16::from(word.bit(63)))
}

const COORDINATES: FamilyOperand = A.width(RegisterCount::Rule(surface_coordinates));
const VALUE: FamilyOperand = read(32).width(RegisterCount::Size(73));
const SURFACE: FamilyOperand = uniform_read(40).when(UNIFORM);
const SURFACE_IN_REGISTER: FamilyOperand = read(64).when(OperandCondition::Form(1 << 4));

static SURFACE_LOAD: [FamilyOperand; 5] =
    [D.width(RegisterCount::Size(73)), predicate_write(81), COORDINATES, SURFACE, SURFACE_IN_REGISTER];
static SURFACE_STORE: [FamilyOperand; 4] = [COORDINATES, VALUE, SURFACE, SURFACE_IN_REGISTER];
static SURFACE_PIXEL: [FamilyOperand; 4] =
    [COORDINATES, read(32).width(RegisterCount::Rule(components)), SURFACE, SURFACE_IN_REGISTER];
static SURFACE_REDUCTION: [FamilyOperand; 4] =
    [COORDINATES, read(32).width(RegisterCount::PairIs(73, 3, 2)), SURFACE, SURFACE_IN_REGISTER];

/// 1D, buffers, arrays of 1D, 2D, arrays of 2D, 3D.
fn surface_coordinates(word: InstructionWord) -> u16 {
    match word.bits(61, 3) {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => 3,
    }
}
