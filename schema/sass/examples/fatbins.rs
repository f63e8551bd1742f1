//! Extraction of a program's fatbins: writes their contents into a folder and lists them.

use std::io::{self, Write};
use std::path::Path;

use stallmap_sass::fatbin::{FatbinEntryKind, Fatbins};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = io::stdout().lock();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, folder] = arguments.as_slice() else { return Err("usage: fatbins PROGRAM FOLDER".into()) };
    let bytes = std::fs::read(program)?;
    for (index, entry) in Fatbins::find(&bytes)?.entries().enumerate() {
        let read = entry.and_then(|entry| Ok((entry, entry.bytes()?)));
        let (entry, bytes) = match read {
            Ok(read) => read,
            Err(error) => {
                writeln!(out, "error: {error}")?;
                continue;
            }
        };
        let suffix = match entry.kind {
            FatbinEntryKind::Ptx => "ptx",
            FatbinEntryKind::Cubin => "cubin",
            FatbinEntryKind::Other(_) => "bin",
        };
        let specific = if entry.is_specific { "a" } else { "" };
        writeln!(out, "{index}.{suffix}: sm_{}{specific}, {} bytes", entry.sm.0, bytes.len())?;
        std::fs::write(Path::new(folder).join(format!("{index}.{suffix}")), bytes)?;
    }
    Ok(())
}
