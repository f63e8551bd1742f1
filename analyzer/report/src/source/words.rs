//! Pieces of sentences that the terminal and the page share.

use super::listing::{Instruction, Kernel, Listing, Touch};
pub(super) use stallmap_console::output::number::counted;
use stallmap_console::output::number::{grouped, measured, percent};

/// Summary of the kernel, in one line.
pub(super) fn facts(kernel: &Kernel) -> String {
    let mut facts = vec![counted(kernel.launches, "launch", "launches"), sampled(kernel.samples)];
    if let Some(share) = kernel.share {
        facts.push(format!("{} of all", percent(share)));
    }
    if let Some(instructions) = kernel.instructions {
        facts.push(counted(instructions, "instruction", "instructions"));
    }
    if let Some(unknown) = kernel.unknown_instructions.filter(|unknown| *unknown > 0) {
        facts.push(format!("{} of them unknown", grouped(unknown.into())));
    }
    if let Some(sm) = kernel.sm {
        facts.push(format!("sm_{sm}"));
    }
    facts.push(format!("function {:#018x}", kernel.function_id));
    facts.join(", ")
}

/// Displayed form of a pc.
pub(super) fn pc(pc: u64) -> String {
    format!("{pc:#06x}")
}

/// A file's base name, used for its lines.
pub(super) fn file_name(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}

/// Short source line of an instruction.
pub(super) fn source(instruction: &Instruction) -> Option<String> {
    instruction.source().map(|(file, line)| format!("{}:{line}", file_name(file)))
}

/// The functions inlined around an instruction, innermost first, their files in short.
pub(super) fn call_path(instruction: &Instruction) -> Option<String> {
    let path = instruction.call_path.as_deref()?;
    Some(path.split_whitespace().map(file_name).collect::<Vec<_>>().join(" "))
}

/// Disassembly of an instruction, or its pc if the code was not decoded.
pub(super) fn text(instruction: &Instruction) -> &str {
    instruction.text.as_deref().unwrap_or("(code not decoded)")
}

/// Samples as a count and a part of the kernel's.
pub(super) fn samples(listing: &Listing, count: f64) -> String {
    format!("{}, {}", sampled(count), percent(listing.share(count)))
}

fn sampled(count: f64) -> String {
    let amount = amount(count);
    let noun = if amount == "1" { "sample" } else { "samples" };
    format!("{amount} {noun}")
}

/// Samples that several may share.
pub(super) fn amount(count: f64) -> String {
    if (0.0..0.05).contains(&count) { "0".to_owned() } else { measured(count) }
}

/// The reasons of an instruction's samples, largest first, limited to one line.
pub(super) fn reasons(listing: &Listing, instruction: &Instruction) -> String {
    const MOST: usize = 3;
    let reasons = listing.reasons(instruction.place());
    let mut words: Vec<String> = reasons
        .iter()
        .take(MOST)
        .map(|reason| format!("{} {}", reason.name, amount(reason.samples)))
        .collect();
    let others: f64 = reasons.iter().skip(MOST).map(|reason| reason.samples).sum();
    if others > 0.0 {
        words.push(format!("other {}", amount(others)));
    }
    words.join(", ")
}

/// Targets of an instruction: `reads h.weight (float32 16x16), 75.0 %`, one text per target.
pub(super) fn touches(listing: &Listing, instruction: &Instruction) -> Vec<String> {
    const MOST: usize = 4;
    let all = listing.touches(instruction.place());
    let verb = verb(instruction);
    let mut words: Vec<String> =
        all.iter().take(MOST).map(|touch| format!("{verb} {}", thing(touch))).collect();
    if all.len() > MOST {
        words.push(format!("other ({})", all.len() - MOST));
    }
    words
}

fn thing(touch: &Touch) -> String {
    let name =
        if touch.tensor == "(not global)" { "shared, local or constant memory" } else { &touch.tensor };
    let mut words = name.to_owned();
    if let Some(kind) = &touch.kind {
        words.extend([format!(" ({kind})")]);
    }
    match touch.share {
        Some(share) if share < 0.999_5 => words.extend([format!(", {}", percent(share))]),
        Some(_) => {}
        // These copies are not observed: their targets follow from their tensor maps.
        None => words += ", by its tensor map",
    }
    if let Some(born_at) = &touch.born_at {
        words.extend([format!(", allocated at {born_at}")]);
    }
    words
}

/// Sector efficiency of an instruction. None if nothing was observed.
pub(super) fn pattern(instruction: &Instruction) -> Option<String> {
    let requests = instruction.requests.filter(|requests| *requests > 0.0)?;
    let (sectors, ideal) = (instruction.sectors?, instruction.ideal_sectors?);
    Some(format!("{:.1} sectors per request, ideal {:.1}", sectors / requests, ideal / requests))
}

fn verb(instruction: &Instruction) -> &'static str {
    match instruction.memory_kind.as_deref() {
        Some("write") => "writes",
        Some("atomic" | "reduction") => "updates",
        Some("copy in" | "copy out") => "copies",
        Some("prefetch") => "prefetches",
        _ => "reads",
    }
}
