//! Calls between the functions of a cubin, as its call graph has them.

use std::collections::BTreeSet;

use goblin::elf::Elf;

/// The section with pairs of symbols: a caller, and a function that it calls. Negative numbers are no symbols.
const SECTION: &str = ".nv.callgraph";

/// Names of the functions that call a function, directly or through others.
pub(super) fn callers(elf: &Elf<'_>, cubin: &[u8], called: &str) -> BTreeSet<String> {
    let name = |symbol: u32| {
        let symbol = elf.syms.get(usize::try_from(symbol).ok()?)?;
        elf.strtab.get_at(symbol.st_name)
    };
    let pairs = pairs(elf, cubin);
    let pairs: Vec<(&str, &str)> =
        pairs.into_iter().filter_map(|(caller, callee)| Some((name(caller)?, name(callee)?))).collect();
    let mut found: BTreeSet<&str> = BTreeSet::from([called]);
    loop {
        let count = found.len();
        let callers = pairs.iter().filter(|(_, callee)| found.contains(callee)).map(|(caller, _)| *caller);
        let callers: Vec<&str> = callers.collect();
        found.extend(callers);
        if found.len() == count {
            break;
        }
    }
    found.remove(called);
    found.into_iter().map(str::to_owned).collect()
}

fn pairs(elf: &Elf<'_>, cubin: &[u8]) -> Vec<(u32, u32)> {
    let mut sections = elf.section_headers.iter();
    let section = sections.find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(SECTION));
    let bytes = section.and_then(|section| cubin.get(section.file_range()?)).unwrap_or_default();
    let (pairs, _) = bytes.as_chunks::<8>();
    let symbol = |bytes: [u8; 4]| u32::try_from(i32::from_le_bytes(bytes)).ok();
    let pair = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| Some((symbol([a, b, c, d])?, symbol([e, f, g, h])?));
    pairs.iter().filter_map(pair).collect()
}
