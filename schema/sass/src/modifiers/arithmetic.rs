//! Modifiers of arithmetic, logic, comparisons and conversions.

use crate::word::{InstructionWord, Sm};

use super::{COMBINATIONS, COMPARISONS, FLOAT_COMPARISONS, Modifiers, ROUNDINGS, form};

/// RZ.
const ZERO: u8 = 255;
/// Floats, by their number in conversions.
const FLOATS: [&str; 5] = ["INVALID0", "F16", "F32", "F64", "BF16"];
/// Functions of MUFU.
const FUNCTIONS: [&str; 10] = ["COS", "SIN", "EX2", "LG2", "RCP", "RSQ", "RCP64H", "RSQ64H", "SQRT", "TANH"];
/// IMAD.U32 is not shown as a shift by this factor.
const HALF_WORD: u64 = 0x10000;

/// Adds the modifiers of arithmetic. True if its rules are known.
pub(super) fn add(modifiers: &mut Modifiers, name: &str, word: InstructionWord, sm: Sm) -> bool {
    let unsigned = |bit| if word.bit(bit) { "" } else { "U32" };
    match name {
        "ISETP" | "UISETP" => {
            modifiers.choose(word.bits(76, 3), &COMPARISONS).add(unsigned(73));
            modifiers.choose(word.bits(74, 2), &COMBINATIONS).add_if(word.bit(72), "EX");
        }
        "FSETP" => {
            modifiers.choose(word.bits(76, 4), &FLOAT_COMPARISONS).add_if(word.bit(80), "FTZ");
            modifiers.choose(word.bits(74, 2), &COMBINATIONS);
        }
        "HSETP2" => {
            modifiers.choose(word.bits(76, 4), &FLOAT_COMPARISONS).choose(word.bits(69, 2), &COMBINATIONS);
        }
        "FADD" | "FMUL" | "FFMA" => {
            modifiers
                .add_if(word.bit(80), "FTZ")
                .choose(word.bits(78, 2), &ROUNDINGS)
                .add_if(word.bit(77), "SAT");
        }
        "FMNMX" | "FSEL" => {
            modifiers.add_if(word.bit(80), "FTZ");
        }
        "HADD2" => {
            modifiers.add_if(word.bit(78), "F32").add_if(word.bit(85), "BF16_V2");
        }
        "HMUL2" | "HFMA2" => {
            modifiers.add_if(word.family() == 0x035, "MMA").add_if(word.bit(85), "BF16_V2");
        }
        "SHF" | "USHF" => {
            modifiers.choose(word.bits(76, 1), &["L", "R"]).add_if(word.bit(75), "W");
            modifiers.choose(word.bits(73, 2), &["S64", "U64", "S32", "U32"]).add_if(word.bit(80), "HI");
        }
        "LEA" | "ULEA" => {
            modifiers.add_if(word.bit(80), "HI").add_if(word.bit(74), "X").add_if(word.bit(73), "SX32");
        }
        "IADD3" | "UIADD3" => {
            modifiers.add_if(name == "UIADD3" && word.family() == 0x097, "64").add_if(word.bit(74), "X");
        }
        "IMAD" | "UIMAD" => multiply(modifiers, name, word),
        "LOP3" | "ULOP3" | "PLOP3" | "UPLOP3" => {
            modifiers.add("LUT");
        }
        "VIADDMNMX" | "VIMNMX" => {
            modifiers.add(unsigned(72));
        }
        "SGXT" | "USGXT" | "IMNMX" => {
            modifiers.add(unsigned(73));
        }
        "FLO" | "UFLO" => {
            modifiers.add(unsigned(73)).add_if(word.bit(74), "SH");
        }
        "MUFU" => {
            modifiers.choose(word.bits(74, 4), &FUNCTIONS);
        }
        // They have none.
        "MOV" | "UMOV" | "SEL" | "USEL" | "PRMT" | "UPRMT" | "VIADD" | "R2UR" | "S2R" | "S2UR" => {}
        _ => return convert(modifiers, name, word, sm) || multiply_matrices(modifiers, name, word),
    }
    true
}

/// IMAD is shown as what it does: a move, an addition, a shift.
fn multiply(modifiers: &mut Modifiers, name: &str, word: InstructionWord) {
    let unsigned = if word.bit(73) { "" } else { "U32" };
    match word.family() & 0x07f {
        0x025 => modifiers.add("WIDE"),
        0x027 => modifiers.add("HI"),
        _ => modifiers,
    };
    let is_plain = word.family() == 0x024 && name == "IMAD" && !word.bit(74);
    if is_plain {
        let immediate = word.bits(32, 32);
        // Behind a constant or a uniform register in its place, the second source is the last.
        let second = match form(word) {
            2 | 3 => Some(word.byte(64)),
            1 => Some(word.byte(32)),
            _ => None,
        };
        let is_shift = immediate.is_power_of_two() && word.byte(64) == ZERO;
        match form(word) {
            _ if word.byte(24) == ZERO && second == Some(ZERO) => modifiers.add("MOV"),
            4 if immediate == 1 => modifiers.add("IADD"),
            4 if is_shift && (immediate != HALF_WORD || word.bit(73)) => modifiers.add("SHL"),
            _ => modifiers,
        };
    }
    modifiers.add(unsigned_behind(word, unsigned)).add_if(word.bit(74), "X");
}

/// With a carry, an IMAD's type is not printed.
fn unsigned_behind(word: InstructionWord, unsigned: &str) -> &str {
    if word.bit(74) && word.family() == 0x024 { "" } else { unsigned }
}

fn convert(modifiers: &mut Modifiers, name: &str, word: InstructionWord, sm: Sm) -> bool {
    let integer = |is_signed: bool, size: u64| match (is_signed, size) {
        (true, 2) => "",
        (true, 0) => "S8",
        (true, 1) => "S16",
        (true, _) => "S64",
        (false, 0) => "U8",
        (false, 1) => "U16",
        (false, 2) => "U32",
        (false, _) => "U64",
    };
    let single = |value: u64| match value {
        0 => "INVALID0",
        1 => "F16",
        2 => "",
        _ => "F64",
    };
    match name {
        "F2FP" => {
            modifiers.choose(word.bits(76, 1), &["F16", "BF16"]);
            if sm.0 >= 90 {
                modifiers.add("F32");
            } else if !word.bit(76) {
                // The usual type was not printed.
                modifiers.0.clear();
            }
            modifiers.add("PACK_AB");
        }
        "I2FP" => {
            modifiers.add("F32").choose(word.bits(74, 1), &["U32", "S32"]);
        }
        "F2F" => {
            modifiers.choose(word.bits(75, 3), &FLOATS).choose(word.bits(84, 3), &FLOATS);
            modifiers.choose(word.bits(78, 2), &ROUNDINGS);
        }
        "I2F" => {
            modifiers.add(single(word.bits(75, 2))).add(integer(word.bit(74), word.bits(84, 2)));
            modifiers.choose(word.bits(78, 2), &ROUNDINGS);
        }
        "F2I" => {
            modifiers.add_if(word.bit(80), "FTZ").add(integer(word.bit(72), word.bits(75, 2)));
            modifiers.add(single(word.bits(84, 2))).choose(word.bits(78, 2), &["", "FLOOR", "CEIL", "TRUNC"]);
            modifiers.add_if(word.bit(77), "NTZ");
        }
        _ => return false,
    }
    true
}

fn multiply_matrices(modifiers: &mut Modifiers, name: &str, word: InstructionWord) -> bool {
    match name {
        "HMMA" => {
            modifiers.choose(word.bits(75, 1), &["1688", "16816"]).choose(word.bits(76, 1), &["F16", "F32"]);
            modifiers.choose(word.bits(82, 2), &["", "BF16", "TF32"]);
        }
        "HGMMA" => {
            modifiers.number(format_args!("64x{}x16", (word.bits(53, 5) + 1) * 8));
            modifiers.choose(word.bits(75, 1), &["F16", "F32"]).add_if(word.bit(76), "BF16");
        }
        _ => return false,
    }
    true
}
