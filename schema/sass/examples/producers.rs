//! Prints a cubin's instructions with their producers: `producers CUBIN [SECTION]`. `producers --speed CUBIN...`
//! prints how fast one core decodes and analyzes.

use std::time::Instant;
use std::{env, fs};

use stallmap_sass::cubin::{CodeSection, Cubin};
use stallmap_sass::decode;
use stallmap_sass::slice::analysis::{SectionAnalysis, analyze};
use stallmap_sass::word::InstructionWord;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--speed") {
        return speed(&arguments.split_off(1));
    }
    let path = arguments.first().ok_or("usage: producers CUBIN [SECTION]")?;
    let wanted = arguments.get(1).map_or("", String::as_str);
    let bytes = fs::read(path)?;
    let cubin = Cubin::read(&bytes)?;
    for section in cubin.sections.iter().filter(|section| section.name.contains(wanted)) {
        let code = bytes.get(section.bytes.clone()).unwrap_or_default();
        show(section, &analyze(code, section, cubin.sm)?);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example's output")]
fn show(section: &CodeSection, analysis: &SectionAnalysis) {
    println!("{}", section.name);
    for block in &analysis.blocks {
        println!("block {:#06x}, then {:x?}", block.first, block.successors);
        for offset in (block.first..=block.last).step_by(16) {
            let Some(instruction) = analysis.instructions.get(offset as usize / 16) else { continue };
            println!("  {offset:#06x} {instruction}");
            for found in analysis.producers.iter().filter(|found| found.waiter == offset) {
                let name =
                    analysis.instructions.get(found.producer as usize / 16).and_then(|one| one.mnemonic);
                println!(
                    "           {} {:.3} {} {:#06x} {} by {} {:?}",
                    found.wait.name(),
                    found.weight,
                    name.unwrap_or("?"),
                    found.producer,
                    found.confidence.name(),
                    found.link.name(),
                    found.distance_cycles
                );
            }
        }
    }
    for found in &analysis.pointer_arrays {
        println!("pointer of {:#06x}: in the array at parameter {:#x}", found.offset, found.parameter_offset);
    }
    for found in &analysis.pointer_stores {
        println!(
            "{:#06x} stores pointer {:#x} to memory at parameter {:#x}",
            found.offset, found.stored_offset, found.parameter_offset
        );
    }
    for found in &analysis.tensor_maps {
        println!("tensor map of {:#06x}: parameter {:#x}", found.offset, found.parameter_offset);
    }
}

#[expect(clippy::print_stdout, reason = "an example's output")]
fn speed(paths: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let (mut instructions, mut waits, mut unknown, mut sections) = (0, 0, 0, 0);
    let (mut decoding, mut analyzing) = (0.0, 0.0);
    for path in paths {
        let bytes = fs::read(path)?;
        let cubin = Cubin::read(&bytes)?;
        for section in &cubin.sections {
            let code = bytes.get(section.bytes.clone()).unwrap_or_default();
            if code.iter().all(|byte| *byte == 0) {
                continue;
            }
            let begin = Instant::now();
            let words = code.as_chunks::<16>().0.iter();
            unknown += words
                .filter(|word| decode(InstructionWord::from_bytes(**word), cubin.sm).mnemonic.is_none())
                .count();
            decoding += begin.elapsed().as_secs_f64();
            let begin = Instant::now();
            let analysis = analyze(code, section, cubin.sm)?;
            analyzing += begin.elapsed().as_secs_f64();
            instructions += analysis.instructions.len();
            waits += analysis.producers.len();
            sections += 1;
        }
    }
    println!("{sections} sections, {instructions} instructions, {unknown} unknown, {waits} producers");
    println!("decoded {:.2} million a second", instructions as f64 / decoding / 1e6);
    println!("analyzed {:.2} million a second", instructions as f64 / analyzing / 1e6);
    Ok(())
}
