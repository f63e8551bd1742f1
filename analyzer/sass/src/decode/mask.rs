//! P2R and R2P: all predicates at once, chosen by a mask.

use crate::register::{File, Register, Registers};
use crate::word::Word;

/// P2R reads the predicates that its mask names.
pub(super) fn read_predicates(word: Word, _writes: &mut Registers, reads: &mut Registers) {
    insert(reads, File::Predicate, mask(word));
}

/// R2P writes the predicates that its mask names.
pub(super) fn write_predicates(word: Word, writes: &mut Registers, _reads: &mut Registers) {
    insert(writes, File::Predicate, mask(word));
}

/// UP2UR reads uniform predicates.
pub(super) fn read_uniform_predicates(word: Word, _writes: &mut Registers, reads: &mut Registers) {
    insert(reads, File::UniformPredicate, mask(word));
}

/// UR2UP writes uniform predicates.
pub(super) fn write_uniform_predicates(word: Word, writes: &mut Registers, _reads: &mut Registers) {
    insert(writes, File::UniformPredicate, mask(word));
}

/// The mask if it is an immediate. All bits if a register or a constant holds it.
fn mask(word: Word) -> u8 {
    let immediate = word.bits(9, 3) == 4;
    if immediate { word.byte(32) & 0x7f } else { 0x7f }
}

fn insert(set: &mut Registers, file: File, mask: u8) {
    let named = (0..7).filter(|index| mask >> index & 1 == 1);
    named.for_each(|index| set.insert(Register { file, index }));
}
