//! Decodes bytes as instructions of every architecture.

use stallmap_sass::decode;
use stallmap_sass::word::{InstructionWord, Sm};

/// Architectures with instructions of their own, and two that do not exist.
const ARCHITECTURES: [u32; 15] = [0, 70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121, u32::MAX];

/// Many short inputs find more than a few long ones.
const MAX_WORDS: usize = 8;

/// Any bits decode without a panic, keep their value, and have a text.
pub(crate) fn instruction(bytes: &[u8]) {
    for word in bytes.as_chunks::<16>().0.iter().take(MAX_WORDS) {
        for sm in ARCHITECTURES {
            let instruction = decode(InstructionWord::from_bytes(*word), Sm(sm));
            assert_eq!(instruction.word, InstructionWord::from_bytes(*word));
            assert!(!instruction.to_string().is_empty());
        }
    }
}
