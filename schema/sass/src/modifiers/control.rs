//! Modifiers of branches, barriers, votes and exchanges between lanes.

use crate::word::{InstructionWord, Sm};

use super::{Modifiers, form};

/// Adds the modifiers of what is no arithmetic and no access of memory. True if its rules are known.
pub(super) fn add(modifiers: &mut Modifiers, name: &str, word: InstructionWord, sm: Sm) -> bool {
    match name {
        "BRA" => {
            let divergence = if sm.0 >= 90 { "DIV" } else { "CONV" };
            modifiers.add_if(form(word) == 2, "U").add_if(form(word) != 2 && word.bit(91), divergence);
            modifiers.add_if(word.bits(84, 2) == 1, "U.ANY");
        }
        "CALL" => {
            modifiers.add(if word.family() == 0x143 { "ABS" } else { "REL" }).add_if(word.bit(86), "NOINC");
        }
        "RET" => {
            modifiers.choose(word.bits(85, 1), &["REL", "ABS"]).add_if(word.bit(86), "NODEC");
        }
        "BAR" => {
            modifiers.choose(word.bits(77, 2), &["SYNC", "ARV", "RED", "SCAN"]);
            modifiers.add_if(word.bit(80), "DEFER_BLOCKING");
        }
        "SYNCS" => mbarrier(modifiers, word),
        "MEMBAR" => {
            modifiers
                .choose(word.bits(79, 1), &["SC", "ALL"])
                .choose(word.bits(76, 2), &["CTA", "SM", "GPU", "SYS"]);
        }
        "FENCE" => {
            modifiers.add("VIEW.ASYNC.S");
        }
        "DEPBAR" => {
            modifiers.add_if(word.bit(47), "LE");
        }
        "WARPGROUP" => {
            modifiers.choose(word.bits(79, 2), &["ARRIVE", "WAIT", "DEPBAR.LE"]);
        }
        "WARPSYNC" => {
            let is_all = form(word) != 1 && sm.0 >= 90;
            modifiers.add_if(form(word) == 1 && word.bit(86), "COLLECTIVE").add_if(is_all, "ALL");
        }
        "NANOSLEEP" => {
            modifiers.add_if(word.bit(84), "SYNCS");
        }
        "SHFL" => {
            modifiers.choose(word.bits(58, 2), &["IDX", "UP", "DOWN", "BFLY"]);
        }
        "VOTE" | "VOTEU" => {
            modifiers.choose(word.bits(72, 2), &["ALL", "ANY", "EQ"]);
        }
        "MATCH" => {
            modifiers.choose(word.bits(79, 1), &["ALL", "ANY"]);
        }
        "CS2R" => {
            modifiers.add_if(!word.bit(80), "32");
        }
        _ => return false,
    }
    true
}

fn mbarrier(modifiers: &mut Modifiers, word: InstructionWord) {
    match (word.family(), form(word)) {
        (0x1b1, _) => modifiers.add("CCTL.IV"),
        (0x1b2, _) => modifiers.add("EXCH.64"),
        (_, 2) => modifiers.add("PHASECHK.TRANS64").add_if(word.bit(72), "TRYWAIT"),
        _ => modifiers.add("ARRIVE.TRANS64").add_if(word.bit(74), "RED").add_if(word.bit(84), "A1T0"),
    };
}
