//! Prints decoded instructions, one per line, with fields separated by tabs.
//!
//! Standard input has one instruction per line: the architecture's number, a space, the 128 bits as 32 hexadecimal
//! digits, high half first. Each line of output has: bits, mnemonic, class, guard, registers written, registers read,
//! memory (space, kind, bytes, address, uniform register, offset), flow, control word (stall cycles, write barrier,
//! read barrier, wait mask). `-` means nothing.

use std::io::{self, BufRead, BufWriter, Write};

use stallmap_sass::decode;
use stallmap_sass::instruction::{MemoryOperand, SassInstruction, WarpFlow};
use stallmap_sass::register::Registers;
use stallmap_sass::word::{InstructionWord, Sm};

fn main() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (sm, word) = parse(&line).ok_or_else(|| io::Error::other(format!("not `SM HEX`: `{line}`")))?;
        writeln!(out, "{}", row(&decode(word, sm)))?;
    }
    out.flush()
}

fn parse(line: &str) -> Option<(Sm, InstructionWord)> {
    let (sm, word) = line.trim().split_once(' ')?;
    Some((Sm(sm.parse().ok()?), InstructionWord(u128::from_str_radix(word, 16).ok()?)))
}

fn row(instruction: &SassInstruction) -> String {
    let control = instruction.control;
    [
        format!("{:032x}", instruction.word.0),
        instruction.mnemonic.unwrap_or("-").to_owned(),
        instruction.class.name().to_owned(),
        or_dash(instruction.guard),
        registers(&instruction.writes),
        registers(&instruction.reads),
        instruction.memory.map_or_else(|| "-".to_owned(), |memory| accessed(&memory)),
        flow(instruction.flow),
        format!(
            "{} {} {} {:02x}",
            control.stall_cycles,
            or_dash(control.write_barrier),
            or_dash(control.read_barrier),
            control.wait_mask
        ),
        instruction.full_name(),
    ]
    .join("\t")
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn registers(set: &Registers) -> String {
    if set.is_empty() { "-".to_owned() } else { set.to_string() }
}

fn accessed(memory: &MemoryOperand) -> String {
    let (address, uniform) = (or_dash(memory.address), or_dash(memory.uniform));
    format!(
        "{},{},{},{address},{uniform},{}",
        memory.space.name(),
        memory.kind.name(),
        memory.bytes,
        memory.offset
    )
}

fn flow(flow: WarpFlow) -> String {
    let (name, displacement, conditional) = match flow {
        WarpFlow::Next => return "next".to_owned(),
        WarpFlow::Branch { displacement, conditional } => ("branch", Some(displacement), conditional),
        WarpFlow::IndirectBranch { conditional } => ("indirect branch", None, conditional),
        WarpFlow::Call { displacement, conditional } => ("call", displacement, conditional),
        WarpFlow::Return { conditional } => ("return", None, conditional),
        WarpFlow::Exit { conditional } => ("exit", None, conditional),
    };
    format!("{name},{},{}", or_dash(displacement), if conditional { "conditional" } else { "always" })
}
