//! P2R and R2P: all predicates at once, chosen by a mask.

use crate::register::{Register, RegisterFile, Registers};
use crate::word::InstructionWord;

/// P2R reads the predicates that its mask names.
pub(super) fn read_predicates(word: InstructionWord, _writes: &mut Registers, reads: &mut Registers) {
    insert(reads, RegisterFile::Predicate, mask(word));
}

/// R2P writes the predicates that its mask names.
pub(super) fn write_predicates(word: InstructionWord, writes: &mut Registers, _reads: &mut Registers) {
    insert(writes, RegisterFile::Predicate, mask(word));
}

/// UP2UR reads uniform predicates.
pub(super) fn read_uniform_predicates(word: InstructionWord, _writes: &mut Registers, reads: &mut Registers) {
    insert(reads, RegisterFile::UniformPredicate, mask(word));
}

/// UR2UP writes uniform predicates.
pub(super) fn write_uniform_predicates(
    word: InstructionWord,
    writes: &mut Registers,
    _reads: &mut Registers,
) {
    insert(writes, RegisterFile::UniformPredicate, mask(word));
}

/// The mask where it is an immediate. All, where a register or a constant holds it.
fn mask(word: InstructionWord) -> u8 {
    let immediate = word.bits(9, 3) == 4;
    if immediate { word.byte(32) & 0x7f } else { 0x7f }
}

fn insert(set: &mut Registers, file: RegisterFile, mask: u8) {
    let named = (0..7).filter(|index| mask >> index & 1 == 1);
    named.for_each(|index| set.insert(Register { file, index }));
}
