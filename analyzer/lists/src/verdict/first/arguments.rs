//! Arguments of a pair of launches: values by value, pointers by the tensors that they lead to.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{FirstDifference, LaunchAspect};
use super::row::{ArgumentPointer, OrderedLaunch, ReadWord, bytes_of_hex};
use super::side::ComparedRun;
use super::walk::LaunchPair;

/// Bytes of a pointer.
const WORD: usize = 8;
/// Addresses of programs begin above this one, on 64-bit systems whose addresses are random.
const LOWEST_MAPPED: u64 = 0x5000_0000_0000;
/// The end of the addresses of programs.
const PAST_MAPPED: u64 = 0x8000_0000_0000;

/// Counts of words that were compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArgumentCounts {
    pub(super) compared: u64,
    pub(super) words: u64,
}

/// Compares the arguments of pairs.
pub(super) struct ArgumentComparison<'a> {
    pub(super) a: &'a ComparedRun<'a>,
    pub(super) b: &'a ComparedRun<'a>,
    /// The words that kernels read.
    pub(super) read: BTreeMap<u64, Vec<ReadWord>>,
    pub(super) counts: ArgumentCounts,
}

impl ArgumentComparison<'_> {
    /// The first argument of a pair that differs.
    pub(super) fn difference(&mut self, (a, b): LaunchPair<'_>) -> Option<FirstDifference> {
        let (Some(ours), Some(others)) = (&a.parameters, &b.parameters) else { return None };
        let (ours, others) = (bytes_of_hex(ours), bytes_of_hex(others));
        if ours.len() != others.len() {
            let detail = format!("{} bytes of arguments, {} in the other", ours.len(), others.len());
            return Some(FirstDifference::for_pair(LaunchAspect::Arguments, a, b, detail));
        }
        if ours == others && self.a.pointers(a.kernel_id).next().is_none() {
            let words = ours.len().div_ceil(WORD) as u64;
            self.counts.words += words;
            self.counts.compared += words;
            return None;
        }
        let known = self.known_bytes((a, b));
        let mut first = None;
        for (at, (ours, others)) in ours.chunks(WORD).zip(others.chunks(WORD)).enumerate() {
            let offset = (at * WORD) as u64;
            self.counts.words += 1;
            let pointers = (self.a.pointer(a.kernel_id, offset), self.b.pointer(b.kernel_id, offset));
            let found = match pointers {
                (Some(p), Some(q)) => pointer_difference((p, number(ours)), (q, number(others))),
                _ if ours == others => WordDifference::Same,
                _ if is_mapped(number(ours)) && is_mapped(number(others)) => WordDifference::Unknown,
                _ => value_difference(ours, others, offset, &known),
            };
            self.counts.compared += u64::from(found != WordDifference::Unknown);
            if let (None, WordDifference::Different { detail, object }) = (&first, found) {
                let detail = format!("argument bytes from {offset}: {detail}");
                let found = FirstDifference::for_pair(LaunchAspect::Arguments, a, b, detail);
                first = Some(FirstDifference { object, ..found });
            }
        }
        first
    }

    /// Bytes that the launch surely reads: single values, and what blocks of its code read that surely ran. The rest of a struct
    /// may be unused, and hold whatever was on the stack.
    fn known_bytes(&self, (a, b): LaunchPair<'_>) -> BTreeSet<u64> {
        let mut known = a.single_bytes();
        // Code that differs may read other bytes.
        if a.function_id == b.function_id {
            let ran = self.blocks_that_ran(a);
            let words = self.read.get(&a.function_id).into_iter().flatten();
            let is_run = |word: &&ReadWord| ran.contains(&(word.function_id, word.block));
            known.extend(words.filter(is_run).flat_map(ReadWord::bytes));
        }
        known
    }

    /// Blocks of code of a launch with a recorded access, and the first of all.
    fn blocks_that_ran(&self, launch: &OrderedLaunch) -> BTreeSet<(u64, Option<u64>)> {
        let accesses = self.a.accesses(launch.kernel_id).unwrap_or_default();
        let ran = accesses.iter().filter(|access| access.block.is_some());
        let ran = ran.map(|access| (access.function_id, access.block));
        ran.chain([(launch.function_id, Some(0))]).collect()
    }
}

/// True for the address of something that a program has.
fn is_mapped(word: u64) -> bool {
    (LOWEST_MAPPED..PAST_MAPPED).contains(&word)
}

/// A little-endian number.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Comparison of one word.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WordDifference {
    /// It cannot be compared.
    Unknown,
    Same,
    /// The difference in words, and the memory that it is about.
    Different {
        detail: String,
        object: Option<String>,
    },
}

/// Pointers to tensors, by the type and by the place in the tensor. Other memory may be divided differently: only the same
/// place in memory of the same size is known to be the same.
fn pointer_difference(a: (&ArgumentPointer, u64), b: (&ArgumentPointer, u64)) -> WordDifference {
    let part = |(pointer, value): (&ArgumentPointer, u64)| {
        (pointer.data_type.is_none(), pointer.object_bytes, value.wrapping_sub(pointer.object_address))
    };
    if a.0.data_type.is_none() && part(a) == part(b) {
        return WordDifference::Same;
    }
    let place = |(pointer, value): (&ArgumentPointer, u64)| {
        Some((pointer.data_type.clone()?, value.checked_sub(pointer.tensor_address?)?))
    };
    let (Some(ours), Some(others)) = (place(a), place(b)) else { return WordDifference::Unknown };
    if ours == others {
        return WordDifference::Same;
    }
    let text = |(data_type, offset): (String, u64)| format!("byte {offset} of {data_type}");
    let detail = format!("{}, {} in the other", text(ours), text(others));
    WordDifference::Different { detail, object: Some(a.0.text()) }
}

/// Values of which the kernel surely reads a byte that differs.
fn value_difference(a: &[u8], b: &[u8], offset: u64, known: &BTreeSet<u64>) -> WordDifference {
    let is_known = |at: &usize| a.get(*at) != b.get(*at) && known.contains(&(offset + *at as u64));
    let places: Vec<usize> = (0..a.len()).filter(is_known).collect();
    if places.is_empty() {
        return WordDifference::Unknown;
    }
    // One half: two numbers of four bytes.
    let half = |places: &[usize]| match places {
        [first, .., last] | [first @ last] if first / 4 == last / 4 => Some(first / 4 * 4..first / 4 * 4 + 4),
        _ => None,
    };
    let range = half(&places).filter(|range| range.end <= a.len()).unwrap_or(0..a.len());
    let text = |bytes: &[u8]| format!("{} ({:#x})", number(bytes), number(bytes));
    let detail = format!("{}, {} in the other", text(&a[range.clone()]), text(&b[range]));
    WordDifference::Different { detail, object: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(data_type: &str, address: u64) -> ArgumentPointer {
        ArgumentPointer {
            data_type: Some(data_type.to_owned()),
            tensor_address: Some(address),
            ..ArgumentPointer::default()
        }
    }

    #[test]
    fn pointers_compare_by_their_place_in_a_tensor() {
        let (a, b) = (pointer("float32 4x4", 4096), pointer("float32 4x4", 1 << 20));
        assert_eq!(pointer_difference((&a, 4100), (&b, (1 << 20) + 4)), WordDifference::Same);
        let different = WordDifference::Different {
            detail: "byte 4 of float32 4x4, byte 8 of float32 4x4 in the other".to_owned(),
            object: Some("memory (float32 4x4)".to_owned()),
        };
        assert_eq!(pointer_difference((&a, 4100), (&b, (1 << 20) + 8)), different);
        let other = ArgumentPointer::default();
        assert_eq!(pointer_difference((&a, 4100), (&other, 8)), WordDifference::Unknown);
    }

    #[test]
    fn only_bytes_that_are_surely_read_differ() {
        let (a, b) = ([1, 0, 0, 0, 7, 0, 0, 0], [1, 0, 0, 0, 9, 0, 0, 0]);
        let detail = "7 (0x7), 9 (0x9) in the other".to_owned();
        let different = WordDifference::Different { detail, object: None };
        assert_eq!(value_difference(&a, &b, 16, &(16..24).collect()), different);
        assert_eq!(value_difference(&a, &b, 16, &(20..24).collect()), different);
        assert_eq!(value_difference(&a, &b, 16, &(16..20).collect()), WordDifference::Unknown);
    }

    #[test]
    fn words_of_two_numbers_are_no_addresses() {
        assert!(is_mapped(0x7f69_e941_8e00) && is_mapped(0x55d0_0000_1000));
        assert!(!is_mapped(0x0010_0000_0020) && !is_mapped(u64::MAX) && !is_mapped(3));
    }
}
