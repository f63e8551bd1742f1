//! Variables of a cubin, except those that cannot change.

use std::collections::BTreeMap;

use goblin::elf::{Elf, Sym};

/// Symbol types of variables: ELF's, and CUDA's own.
const OBJECTS: [u8; 2] = [1, 13];
/// Prefixes of the compiler's own constants: texts, tables of the mathematical functions.
const CONSTANTS: [&str; 3] = ["$str", "__unnamed_", "__cudart_"];
/// Substrings of names of NVIDIA's C++ library. Its variables of one byte are function objects without a state.
const LIBRARY: [&str; 2] = ["4cuda3std", "THRUST_"];

/// Mangled names and bytes of variables in device memory and in the constant bank that programs fill.
pub(super) fn from_elf(elf: &Elf) -> Vec<(String, u64)> {
    let section = |symbol: &Sym| {
        let section = elf.section_headers.get(symbol.st_shndx)?;
        elf.shdr_strtab.get_at(section.sh_name)
    };
    let objects = elf.syms.iter().filter(|symbol| {
        OBJECTS.contains(&symbol.st_type())
            && symbol.st_size > 0
            && section(symbol).is_some_and(holds_variables)
    });
    let named = objects.filter_map(|symbol| Some((elf.strtab.get_at(symbol.st_name)?, symbol.st_size)));
    let variables = named.filter(|(name, bytes)| !is_constant(name, *bytes));
    // Files that were linked may each have a local variable of a name. The driver finds one of them.
    let by_name: BTreeMap<&str, u64> = variables.collect();
    by_name.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

fn holds_variables(section: &str) -> bool {
    section == ".nv.global" || section == ".nv.global.init" || section.starts_with(".nv.constant3")
}

fn is_constant(name: &str, bytes: u64) -> bool {
    CONSTANTS.iter().any(|prefix| name.starts_with(prefix))
        || bytes == 1 && LIBRARY.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_cubin() {
        let cubin = include_bytes!("../../../../../schema/sass/testdata/cubins/calls.sm_90.abi8.cubin");
        assert_eq!(from_elf(&Elf::parse(cubin).unwrap()), [("chosen_before".to_owned(), 8)]);
    }

    #[test]
    fn what_nobody_changes_is_left_out() {
        let object = "_ZN41_INTERNAL_b6de9c8c_10_SoftMax_cu_9f978f634cuda3std6ranges3__45__cpo4swapE";
        for (name, bytes) in [("$str$1", 32), ("__unnamed_5", 15), ("__cudart_i2opi_f", 24), (object, 1)] {
            assert!(is_constant(name, bytes), "{name}");
        }
        for (name, bytes) in [("counter", 4), ("_ZL4flag", 1), (object, 8)] {
            assert!(!is_constant(name, bytes), "{name}");
        }
    }
}
