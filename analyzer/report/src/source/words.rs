//! Pieces of sentences that the terminal and the page share.

use std::collections::BTreeMap;

use super::listing::{InstructionTarget, KernelListing, ListingInstruction, ListingKernel};
use crate::glossary::meaning;
pub(super) use stallmap_console::output::number::counted;
use stallmap_console::output::number::{grouped, measured, percent};

/// Summary of the kernel, in one line: what it cost, and its shape.
pub(super) fn facts(kernel: &ListingKernel) -> String {
    let mut facts = vec![counted(kernel.launches, "launch", "launches"), sampled(kernel.samples)];
    if let Some(share) = kernel.share {
        facts.push(format!("{} of all", percent(share)));
    }
    facts.extend(shape(kernel));
    facts.join(", ")
}

/// Its code, in one line: instructions, architecture, identity.
pub(super) fn code(kernel: &ListingKernel) -> String {
    let mut facts = Vec::new();
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

/// The grid, its registers, and the part of the GPU that it fills.
fn shape(kernel: &ListingKernel) -> Vec<String> {
    let blocks = kernel.least_blocks.zip(kernel.most_blocks).map(|(least, most)| match (least, most) {
        (least, most) if least < most => {
            format!("{} to {}", grouped(least.into()), counted(most, "block", "blocks"))
        }
        (_, most) => counted(most, "block", "blocks"),
    });
    let mut words = Vec::new();
    if let Some((blocks, threads)) = blocks.zip(kernel.block_threads) {
        words.push(format!("{blocks} of {} threads", grouped(threads.into())));
    }
    words.extend(kernel.register_count.map(|count| counted(count, "register", "registers")));
    words.extend(kernel.occupancy.map(|share| format!("occupancy {}", percent(share))));
    let idle = kernel.idle_multiprocessor_share.filter(|share| *share > 0.0);
    words.extend(idle.map(|share| format!("{} of multiprocessors idle", percent(share))));
    words
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
pub(super) fn source(instruction: &ListingInstruction) -> Option<String> {
    instruction.source().map(|(file, line)| format!("{}:{line}", file_name(file)))
}

/// The functions inlined around an instruction, innermost first, their files in short.
pub(super) fn call_path(instruction: &ListingInstruction) -> Option<String> {
    let path = instruction.call_path.as_deref()?;
    Some(path.split_whitespace().map(file_name).collect::<Vec<_>>().join(" "))
}

/// Disassembly of an instruction, or its pc if the code was not decoded.
pub(super) fn text(instruction: &ListingInstruction) -> &str {
    instruction.text.as_deref().unwrap_or("(code not decoded)")
}

/// Samples as a count and a part of the kernel's.
pub(super) fn samples(listing: &KernelListing, count: f64) -> String {
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

/// The most frequent reasons of a kernel's samples with their meanings.
pub(super) fn meanings(listing: &KernelListing) -> Vec<String> {
    const LEAST: f64 = 0.05;
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for reason in listing.instructions.iter().flat_map(|row| listing.reasons(row.place())) {
        *sums.entry(&reason.name).or_default() += reason.samples;
    }
    let mut sums: Vec<(&str, f64)> =
        sums.into_iter().filter(|(_, samples)| listing.share(*samples) >= LEAST).collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let known = sums.into_iter().filter_map(|(name, samples)| Some((name, samples, meaning(name)?)));
    known
        .map(|(name, samples, meaning)| format!("{} {name}: {meaning}", percent(listing.share(samples))))
        .collect()
}

/// The reasons of the samples of some instructions, largest first, limited to one line.
pub(super) fn reasons(listing: &KernelListing, instructions: &[&ListingInstruction]) -> String {
    const MOST: usize = 3;
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for reason in instructions.iter().flat_map(|instruction| listing.reasons(instruction.place())) {
        match sums.iter_mut().find(|(name, _)| *name == reason.name) {
            Some((_, samples)) => *samples += reason.samples,
            None => sums.push((&reason.name, reason.samples)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut words: Vec<String> =
        sums.iter().take(MOST).map(|(name, samples)| format!("{name} {}", amount(*samples))).collect();
    let others: f64 = sums.iter().skip(MOST).map(|(_, samples)| samples).sum();
    if others > 0.0 {
        words.push(format!("other {}", amount(others)));
    }
    words.join(", ")
}

/// Targets of an instruction: `reads h.weight (float32 16x16), 75.0 %`, one text per target.
pub(super) fn touches(listing: &KernelListing, instruction: &ListingInstruction) -> Vec<String> {
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

fn thing(touch: &InstructionTarget) -> String {
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
pub(super) fn pattern(instruction: &ListingInstruction) -> Option<String> {
    let requests = instruction.requests.filter(|requests| *requests > 0.0)?;
    let (sectors, ideal) = (instruction.sectors?, instruction.ideal_sectors?);
    Some(format!("{:.1} sectors per request, ideal {:.1}", sectors / requests, ideal / requests))
}

/// Sectors per request and the ideal, as `32.0/4.0`. None if nothing was observed.
pub(super) fn sectors(instruction: &ListingInstruction) -> Option<String> {
    let requests = instruction.requests.filter(|requests| *requests > 0.0)?;
    let (sectors, ideal) = (instruction.sectors?, instruction.ideal_sectors?);
    Some(format!("{:.1}/{:.1}", sectors / requests, ideal / requests))
}

fn verb(instruction: &ListingInstruction) -> &'static str {
    match instruction.memory_kind.as_deref() {
        Some("write") => "writes",
        Some("atomic" | "reduction") => "updates",
        Some("copy in" | "copy out") => "copies",
        Some("prefetch") => "prefetches",
        _ => "reads",
    }
}
