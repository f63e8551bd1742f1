//! Prints the lines of a cubin: one line per change, `section offset file:line`, inner lines first.

use std::io::{self, Write};

use stallmap_sass::cubin::Cubin;
use stallmap_sass::line::LineTable;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(path)?;
        let cubin = Cubin::read(&bytes)?;
        let lines = LineTable::read(&bytes, &cubin)?;
        for (index, section) in cubin.sections.iter().enumerate() {
            let mut shown = None;
            for offset in (0..u32::try_from(section.bytes.len())?).step_by(16) {
                let frames = lines
                    .frames(index, offset)
                    .fold(String::new(), |frames, frame| format!("{frames} {}:{}", frame.file, frame.line));
                if !frames.is_empty() && shown.as_ref() != Some(&frames) {
                    writeln!(out, "{} {offset:#06x}{frames}", section.name)?;
                    shown = Some(frames);
                }
            }
        }
    }
    Ok(())
}
