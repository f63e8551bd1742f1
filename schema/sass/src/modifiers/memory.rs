//! Modifiers of loads, stores, atomics and copies.

use crate::word::{InstructionWord, Sm};

use super::{Modifiers, form};

/// Sizes of accesses. 32 bits are not printed.
const SIZES: [&str; 8] = ["U8", "S8", "U16", "S16", "", "64", "128", "U.128"];
/// Order in which a cache gives lines up. The usual one is not printed.
const EVICTIONS: [&str; 6] = ["EF", "", "EL", "LU", "EU", "NA"];
/// Order with accesses of others, and the scope of it.
const ORDERS: [&str; 11] = [
    "",
    "INVALID1",
    "INVALID2",
    "INVALID3",
    "CONSTANT",
    "STRONG.SM",
    "INVALID6",
    "STRONG.GPU",
    "INVALID8",
    "INVALID9",
    "STRONG.SYS",
];
/// Operations of atomics.
const OPERATIONS: [&str; 9] = ["ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH"];
/// Types of atomics of integers. Unsigned 32 bits are not printed.
const INTEGERS: [&str; 7] = ["", "S32", "64", "F32.FTZ.RN", "F16x2.RN", "S64", "F64.RN"];

/// The atomic with two operands.
const COMPARE_AND_SWAP: u16 = 0x1a9;

/// Adds the modifiers of an access of memory. True if its rules are known.
pub(super) fn add(modifiers: &mut Modifiers, name: &str, word: InstructionWord, sm: Sm) -> bool {
    let size = word.bits(73, 3);
    match name {
        "LDG" | "STG" | "LD" | "ST" => {
            modifiers
                .add_if(is_extended(word), "E")
                .choose(word.bits(84, 3), &EVICTIONS)
                .choose(size, &SIZES);
            order(modifiers, word, sm);
        }
        "LDS" | "STS" | "LDL" | "STL" | "LDC" | "ULDC" => {
            modifiers.choose(size, &SIZES);
        }
        "ATOMG" | "ATOM" => {
            modifiers.add_if(word.bit(72), "E");
            atomic(modifiers, word.bits(87, 4), word, sm);
        }
        "RED" | "REDG" => {
            modifiers.add_if(is_extended(word), "E");
            atomic(modifiers, word.bits(87, 3), word, sm);
        }
        "LDGSTS" => {
            modifiers.add("E").add_if(!word.bit(81), "BYPASS").choose(size, &SIZES);
        }
        "LDSM" | "STSM" => {
            modifiers
                .add("16")
                .choose(word.bits(78, 1), &["M88", "MT88"])
                .choose(word.bits(72, 2), &["", "2", "4"]);
        }
        "UTMALDG" | "UTMASTG" => {
            modifiers.number(format_args!("{}D", word.bits(79, 3) + 1));
            modifiers.add_if(name == "UTMALDG" && form(word) == 1, "MULTICAST");
        }
        "UTMACCTL" => {
            modifiers.choose(word.bits(82, 1), &["IV", "PF"]);
        }
        _ => return false,
    }
    true
}

/// True for addresses of 64 bits. With a descriptor the bit is another one.
fn is_extended(word: InstructionWord) -> bool {
    word.bit(if word.bit(91) { 90 } else { 72 })
}

/// The order with other accesses, with its scope.
fn order(modifiers: &mut Modifiers, word: InstructionWord, sm: Sm) {
    if sm.0 >= 80 {
        modifiers.choose(word.bits(77, 4), &ORDERS);
        return;
    }
    let scope = ["CTA", "SM", "GPU", "SYS"].get(usize::from(word.byte(77) & 3)).copied().unwrap_or_default();
    match word.bits(79, 2) {
        0 => modifiers.add("CONSTANT"),
        2 => modifiers.add("STRONG").add(scope),
        _ => modifiers,
    };
}

fn atomic(modifiers: &mut Modifiers, operation: u64, word: InstructionWord, sm: Sm) {
    if word.family() == COMPARE_AND_SWAP {
        modifiers.add("CAS");
    } else {
        modifiers.choose(operation, &OPERATIONS);
    }
    // Since sm_90, floats have operations of their own, with types of theirs.
    let is_float = sm.0 >= 90 && matches!(word.family(), 0x1a3 | 0x1a6);
    match (is_float, word.bits(73, 4)) {
        (true, 9) => modifiers.add("F32.FTZ.RN"),
        (true, _) => modifiers.add("FLOAT"),
        (false, _) => modifiers.choose(word.bits(73, 3), &INTEGERS),
    };
    order(modifiers, word, sm);
}
