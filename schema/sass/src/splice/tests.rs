use std::collections::BTreeSet;

use super::*;
use crate::register::Registers;

const TIMER: &[u8] = include_bytes!("../../testdata/block.sm_90.cubin");
const BEGIN: &str = "stallmap_block_enter";
const END: &str = "stallmap_block_exit";
const KERNELS: [&[u8]; 3] = [
    include_bytes!("../../testdata/cubins/calls.sm_90.abi8.cubin"),
    include_bytes!("../../testdata/cubins/nested.sm_90.abi8.cubin"),
    include_bytes!("../../testdata/cubins/linked.sm_90.abi8.cubin"),
];

fn code(bytes: &[u8], kernel: &str) -> Vec<u128> {
    let cubin = Cubin::read(bytes).unwrap();
    let (_, section) = section_of(&cubin, kernel).unwrap();
    words(&bytes[section.bytes.clone()]).collect()
}

fn kernels(bytes: &[u8]) -> Vec<String> {
    let cubin = Cubin::read(bytes).unwrap();
    let functions = cubin.sections.iter().flat_map(|section| &section.functions);
    functions.filter(|function| function.is_kernel).map(|function| function.name.clone()).collect()
}

/// The instructions that can follow an instruction of straight code: where its branch leads, and the next one.
fn leads_to(code: &[u128], at: usize) -> usize {
    usize::try_from(target(i64::try_from(at).unwrap(), code[at])).unwrap()
}

#[test]
fn a_kernel_begins_and_ends_in_the_other_code() {
    let timer = SplicedCode::read(TIMER, BEGIN, END).unwrap();
    let mut seen = 0;
    for bytes in KERNELS {
        for kernel in kernels(bytes) {
            let before = code(bytes, &kernel);
            let after = match spliced(bytes, &kernel, &timer) {
                Ok(changed) => code(&changed.cubin, &kernel),
                Err(reason) => panic!("{kernel}: {reason}"),
            };
            seen += 1;
            let begin = leads_to(&after, 0);
            assert_eq!(begin, before.len(), "{kernel}");
            // The way back: the kernel's first instruction, then its second one.
            let back = begin + timer.begin.len();
            assert_eq!((after[back - 1], leads_to(&after, back)), (before[0], 1), "{kernel}");
            assert_eq!(after[back] >> WAIT_SHIFT & ALL_BARRIERS, ALL_BARRIERS);
            let end = back + 1;
            for (at, (old, new)) in before.iter().zip(&after).enumerate().skip(1) {
                if is(*old, opcode::EXIT) {
                    assert_eq!(leads_to(&after, at), end, "{kernel} at {at}");
                    assert_eq!(old >> GUARD_SHIFT & GUARD_MASK, new >> GUARD_SHIFT & GUARD_MASK);
                } else {
                    assert_eq!(old, new, "{kernel} at {at}");
                }
            }
            assert!(is(after[end], FENCE & 0xfff) && after[end..].iter().any(|word| is(*word, opcode::EXIT)));
            // Stores of the other code say when they have read their registers.
            let stores = after[begin..back].iter().filter(|word| is(**word, opcode::STORE));
            assert!(
                stores.clone().count() == 1 && stores.clone().all(|word| word >> READ_SHIFT & READ_MASK != 7)
            );
        }
    }
    assert!(seen >= 3, "{seen} kernels");
}

#[test]
fn the_rest_of_a_cubin_stays() {
    let timer = SplicedCode::read(TIMER, BEGIN, END).unwrap();
    for bytes in KERNELS {
        let kernel = kernels(bytes).remove(0);
        let changed = spliced(bytes, &kernel, &timer).unwrap().cubin;
        let (old, new) = (Elf::parse(bytes).unwrap(), Elf::parse(&changed).unwrap());
        let mut grown = BTreeSet::new();
        for (number, (before, after)) in old.section_headers.iter().zip(&new.section_headers).enumerate() {
            let name = old.shdr_strtab.get_at(before.sh_name).unwrap();
            if before.sh_size != after.sh_size {
                grown.insert(name);
                assert_eq!(after.sh_size % ALIGNMENT as u64, 0);
            } else if let (Some(one), Some(other)) = (before.file_range(), after.file_range())
                && !matches!(name, ".symtab")
            {
                assert_eq!(bytes[one], changed[other], "section {number} {name}");
            }
            assert_eq!(after.sh_offset % after.sh_addralign.max(1), 0, "{name}");
        }
        assert_eq!(grown.into_iter().collect::<Vec<_>>(), [format!(".text.{kernel}")]);
        let sizes = |elf: &Elf<'_>| elf.syms.iter().map(|symbol| symbol.st_size).collect::<Vec<_>>();
        let differ = sizes(&old).iter().zip(sizes(&new)).filter(|(one, other)| **one != *other).count();
        assert_eq!(differ, 1, "one symbol has grown");
        let loaded = |elf: &Elf<'_>| elf.program_headers.iter().map(|header| header.p_filesz).sum::<u64>();
        let added = (changed.len() - bytes.len()) as u64;
        // A cubin that is not linked yet has no program headers.
        assert_eq!(loaded(&new) - loaded(&old), if old.header.e_phnum > 0 { added } else { 0 });
        assert_eq!((new.header.e_shnum, new.header.e_phnum), (old.header.e_shnum, old.header.e_phnum));
    }
}

#[test]
fn what_cannot_be_spliced_is_refused() {
    let timer = SplicedCode::read(TIMER, BEGIN, END).unwrap();
    let older = include_bytes!("../../testdata/cubins/calls.sm_80.abi7.cubin");
    let kernel = kernels(older).remove(0);
    assert_eq!(spliced(older, &kernel, &timer).err(), Some("code of its architecture cannot be changed"));
    assert_eq!(spliced(KERNELS[0], "no_such_kernel", &timer).err(), Some("its cubin has no such kernel"));
    let wide = SplicedCode { registers: 300, ..timer.clone() };
    let kernel = kernels(KERNELS[0]).remove(0);
    assert_eq!(spliced(KERNELS[0], &kernel, &wide).err(), Some("it has fewer registers than the code needs"));
    assert_eq!(spliced(b"no cubin", "k", &timer).err(), Some("its cubin cannot be read"));
    assert!(SplicedCode::read(KERNELS[0], BEGIN, END).is_err());
}

#[test]
fn branches_lead_where_they_say() {
    for (at, to) in [(0, 40), (40, 0), (7, 7), (100, 99), (3, 1 << 20)] {
        let word = branch(at, to, 9, 5);
        assert_eq!(target(i64::try_from(at).unwrap(), word), i64::try_from(to).unwrap());
        assert_eq!((word >> GUARD_SHIFT & GUARD_MASK, word >> WAIT_SHIFT & ALL_BARRIERS), (9, 5));
    }
    assert_eq!(branch(5, 5, ALWAYS, 0), BRANCH_TO_ITSELF);
}

#[test]
fn warps_note_the_moments_around_waits() {
    let bytes = include_bytes!("../../testdata/waits.sm_90.cubin");
    let timer = SplicedCode::read(TIMER, "stallmap_warp_enter", END).unwrap().with_rings(8192).unwrap();
    let copy = spliced(bytes, "waits", &timer).unwrap();
    let decoded = |bytes: &[u8]| -> Vec<SassInstruction> {
        code(bytes, "waits").iter().map(|word| decode(InstructionWord(*word), ARCHITECTURE)).collect()
    };
    let (before, after) = (decoded(bytes), decoded(&copy.cubin));
    let index = |marker: &WarpMarker| (marker.offset / 16) as usize;
    let mut names: Vec<(&str, bool)> =
        copy.markers.iter().map(|marker| (before[index(marker)].mnemonic.unwrap(), marker.is_end)).collect();
    names.sort_unstable();
    names.dedup();
    let waits = ["BAR", "DEPBAR", "SYNCS"].into_iter().flat_map(|name| [(name, false), (name, true)]);
    let expected: BTreeSet<_> = waits.chain([("LDGSTS", false)]).collect();
    assert!(expected.is_subset(&names.iter().copied().collect()), "{names:?}");
    assert_eq!((copy.unmarked, copy.registers > 24), (0, false));
    let own = before.iter().fold(Registers::NONE, |all, one| all.or(&one.reads).or(&one.writes));
    for marker in &copy.markers {
        // From the kernel into the code of the site, through the instruction, and back behind it.
        let at = index(marker);
        let words = code(&copy.cubin, "waits");
        let start = leads_to(&words, at);
        let back = start + words[start..].iter().position(|word| is(*word, opcode::BRANCH)).unwrap();
        assert_eq!(leads_to(&words, back), at + 1);
        let site = &after[start..back];
        let is_moved =
            |one: &&SassInstruction| one.mnemonic == before[at].mnemonic && one.guard == before[at].guard;
        assert_eq!(site.iter().filter(is_moved).count(), 1);
        let notes = site.iter().filter(|one| !is_moved(one));
        let written = notes.fold(Registers::NONE, |all, one| all.or(&one.writes));
        assert!(!written.is_empty() && !written.intersects(&own), "{written}");
    }
    let registers = Cubin::read(&copy.cubin).unwrap().sections.iter().map(|section| section.registers).max();
    assert_eq!(registers, Some(Some(copy.registers)));
}
