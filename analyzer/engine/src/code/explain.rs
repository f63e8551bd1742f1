//! Why an instruction waits for another, as a sentence.

use std::fmt::Write as _;

use stallmap_sass::control::BARRIERS;
use stallmap_sass::instruction::SassInstruction;
use stallmap_sass::slice::analysis::{ProducerLink, WaitProducer};

use super::section::SectionCode;

/// Such as "IMAD at 0x120 reads R2, which LDG.64 at 0xd0 writes under barrier 2".
pub(super) fn sentence(section: &SectionCode, producer: &WaitProducer) -> String {
    let (Some(waiter), Some(setter)) =
        (section.instruction(producer.waiter), section.instruction(producer.producer))
    else {
        return String::new();
    };
    let (here, there) = (named(section, producer, &waiter, true), named(section, producer, &setter, false));
    let write = under(setter.control.write_barrier);
    let read = under(setter.control.read_barrier);
    match producer.link {
        ProducerLink::Reads => {
            format!("{here} reads {}, which {there} writes{write}", waiter.reads.and(&setter.writes))
        }
        ProducerLink::Overwrites => {
            format!("{here} writes {}, which {there} writes{write}", waiter.writes.and(&setter.writes))
        }
        ProducerLink::Reuses => {
            format!("{here} writes {}, which {there} still reads{read}", waiter.writes.and(&setter.reads))
        }
        ProducerLink::Barrier => {
            format!("{here} waits for {}, which {there} sets", barriers(&waiter, &setter))
        }
        ProducerLink::Group if setter.memory.is_none() => {
            format!("{here} waits for {there}, but no asynchronous copy is on its way")
        }
        ProducerLink::Group => {
            format!("{here} waits for a group of asynchronous copies, of which {there} is one")
        }
        ProducerLink::Mbarrier => {
            format!("{here} waits for an mbarrier that {there} signals, not proved by the code")
        }
        ProducerLink::InOrder => {
            format!(
                "{here} waits for an mbarrier, and the copy that signals it for {there}: those of a loop are in order"
            )
        }
        ProducerLink::Store => format!("{here} waits until {there} is done"),
    }
}

/// Such as "STG.32 at 0x190 waits for room in the queue of its unit", where it waits for what it asks itself.
pub(super) fn itself(section: &SectionCode, offset: u32, awaited: &str) -> String {
    let Some(instruction) = section.instruction(offset) else { return String::new() };
    let pc = section.location(offset).map_or(offset, |(_, pc)| pc.0);
    format!("{} at {pc:#x} waits for {awaited}", name(&instruction))
}

/// Name and size of access, as in an instruction's text.
pub(super) fn name(instruction: &SassInstruction) -> String {
    let mnemonic = instruction.mnemonic.unwrap_or("an unknown instruction").to_owned();
    match instruction.memory {
        Some(memory) if memory.bytes > 0 => format!("{mnemonic}.{}", memory.bytes * 8),
        _ => mnemonic,
    }
}

/// An instruction with its location, and with its function if the two are in different ones.
fn named(
    section: &SectionCode,
    producer: &WaitProducer,
    instruction: &SassInstruction,
    is_waiter: bool,
) -> String {
    let offset = if is_waiter { producer.waiter } else { producer.producer };
    let of = |offset: u32| section.function_at(offset);
    let mut text =
        format!("{} at {:#x}", name(instruction), section.location(offset).map_or(offset, |(_, pc)| pc.0));
    let (function, other) = (of(offset), of(if is_waiter { producer.producer } else { producer.waiter }));
    if let (Some(function), true) = (function, function != other) {
        text.extend([" of ", &function.name]);
    }
    text
}

fn under(barrier: Option<u8>) -> String {
    barrier.map(|barrier| format!(" under barrier {barrier}")).unwrap_or_default()
}

/// The barriers that the waiter waits for and the setter sets.
fn barriers(waiter: &SassInstruction, setter: &SassInstruction) -> String {
    let set = [setter.control.write_barrier, setter.control.read_barrier];
    let common = (0..BARRIERS)
        .filter(|barrier| waiter.control.wait_mask >> barrier & 1 == 1 && set.contains(&Some(*barrier)));
    let mut text = String::new();
    for barrier in common {
        let separator = if text.is_empty() { "barrier " } else { " and " };
        // Writing to a string cannot fail.
        write!(text, "{separator}{barrier}").unwrap_or_default();
    }
    if text.is_empty() { "a barrier".to_owned() } else { text }
}
