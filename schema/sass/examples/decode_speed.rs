//! Speed of decoding: repeats all code of the given cubins for a second and prints the number of instructions.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;
use std::{env, fs};

use stallmap_sass::cubin::Cubin;
use stallmap_sass::decode;
use stallmap_sass::word::{InstructionWord, Sm};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<(Sm, InstructionWord)> = Vec::new();
    for path in env::args().skip(1) {
        let bytes = fs::read(&path)?;
        let cubin = Cubin::read(&bytes)?;
        for section in &cubin.sections {
            let code = bytes.get(section.bytes.clone()).unwrap_or_default();
            words.extend(
                code.as_chunks::<16>().0.iter().map(|bytes| (cubin.sm, InstructionWord::from_bytes(*bytes))),
            );
        }
    }
    if words.is_empty() {
        return Err("no code: give cubins as arguments".into());
    }
    let start = Instant::now();
    let mut decoded = 0;
    let mut known = 0;
    while start.elapsed().as_secs_f64() < 1.0 {
        known = words.iter().filter(|(sm, word)| black_box(decode(*word, *sm)).mnemonic.is_some()).count();
        decoded += words.len();
    }
    let share = known as f64 / words.len() as f64;
    let per_second = decoded as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{} instructions, {share:.5} known, {per_second:.2} million decoded per second", words.len());
    Ok(())
}
