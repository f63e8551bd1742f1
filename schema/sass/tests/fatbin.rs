//! Fatbins: the same code stored in every way, in host files, and damaged.

#![expect(clippy::unwrap_used, reason = "committed files can be read")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use stallmap_sass::cubin::Cubin;
use stallmap_sass::fatbin::{FatbinEntryKind, FatbinError, Fatbins};
use stallmap_sass::word::Sm;

const STORED: [&str; 3] = ["tiny.none.fatbin", "tiny.lz4.fatbin", "tiny.zstd.fatbin"];

fn bytes(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/fatbins").join(name)).unwrap()
}

/// (kind, architecture, specific flag, bytes) of every entry.
fn contents(fatbins: &[u8]) -> Vec<(FatbinEntryKind, Sm, bool, Vec<u8>)> {
    let entries: Vec<_> = Fatbins::find(fatbins).unwrap().entries().map(Result::unwrap).collect();
    entries.iter().map(|e| (e.kind, e.sm, e.is_specific, e.bytes().unwrap().into_owned())).collect()
}

/// A host file of 64 bits with one section of a name, between the empty one and the one of names.
fn host_file(section: &str, content: &[u8]) -> Vec<u8> {
    let names = format!("\0{section}\0.shstrtab\0");
    let table = 64 + content.len() + names.len();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([1, 0, 62, 0, 1, 0, 0, 0]);
    file.resize(40, 0);
    file.extend((table as u64).to_le_bytes());
    file.resize(58, 0);
    file.extend([64, 0, 3, 0, 2, 0]);
    file.extend(content);
    file.extend(names.as_bytes());
    let name_of_names = u32::try_from(section.len()).unwrap() + 2;
    let sections =
        [(0, 0, 0, 0), (1, 1, 64, content.len()), (name_of_names, 3, 64 + content.len(), names.len())];
    for (name, kind, offset, size) in sections {
        let header = file.len();
        file.extend(u32::to_le_bytes(name));
        file.extend(u32::to_le_bytes(kind));
        file.resize(header + 24, 0);
        file.extend((offset as u64).to_le_bytes());
        file.extend((size as u64).to_le_bytes());
        file.resize(header + 64, 0);
    }
    file
}

#[test]
fn compressed_or_not_the_code_is_the_same() {
    let [plain, lz4, zstd] = STORED.map(|name| contents(&bytes(name)));
    let kinds: Vec<_> = plain.iter().map(|(kind, sm, specific, _)| (*kind, sm.0, *specific)).collect();
    assert_eq!(
        kinds,
        [
            (FatbinEntryKind::Cubin, 75, false),
            (FatbinEntryKind::Ptx, 75, false),
            (FatbinEntryKind::Cubin, 90, true)
        ]
    );
    assert_eq!(plain, lz4);
    assert_eq!(plain, zstd);
    assert!(bytes("tiny.lz4.fatbin").len() * 2 < bytes("tiny.none.fatbin").len());
}

#[test]
fn cubins_in_fatbins_can_be_read_and_ptx_is_text() {
    for (kind, sm, _, bytes) in contents(&bytes("tiny.zstd.fatbin")) {
        if kind == FatbinEntryKind::Ptx {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains(".target sm_75") && text.trim_end().ends_with('}'), "{text}");
        } else {
            let cubin = Cubin::read(&bytes).unwrap();
            assert_eq!((cubin.sm, cubin.sections[0].name.as_str()), (sm, ".text._Z4tinyPff"));
        }
    }
}

#[test]
fn regions_follow_each_other_in_host_files() {
    let regions = [bytes("tiny.lz4.fatbin"), vec![0; 24], bytes("tiny.zstd.fatbin")].concat();
    for section in [".nv_fatbin", "__nv_relfatbin"] {
        let found = contents(&host_file(section, &regions));
        let expected = contents(&bytes("tiny.none.fatbin"));
        assert_eq!(found, [expected.clone(), expected].concat());
    }
}

#[test]
fn what_holds_no_fatbins_is_refused_with_a_reason() {
    let message = |bytes: &[u8]| Fatbins::find(bytes).unwrap_err().to_string();
    assert_eq!(message(&host_file(".text", b"")), "it holds no fatbins: none of its sections is for fatbins");
    assert!(message(b"PK\x03\x04").starts_with("it holds no fatbins: "));
}

#[test]
fn a_damaged_region_does_not_take_the_next() {
    let mut first = bytes("tiny.lz4.fatbin");
    // The size of the first entry's payload.
    first[16 + 8 + 6] = 1;
    let regions = [first, bytes("tiny.zstd.fatbin")].concat();
    let entries: Vec<_> = Fatbins::find(&regions).unwrap().entries().collect();
    let cause = "an entry reaches beyond its region";
    assert_eq!(entries[0], Err(FatbinError::Damaged { offset: 16, cause }));
    assert_eq!(entries.iter().filter(|entry| entry.is_ok()).count(), 3);
}

#[test]
fn sizes_that_cannot_be_are_not_believed() {
    for name in &STORED[1..] {
        let mut fatbin = bytes(name);
        fatbin[16 + 56..16 + 64].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        let entry = Fatbins::find(&fatbin).unwrap().entries().next().unwrap().unwrap();
        assert!(matches!(entry.bytes(), Err(FatbinError::TooLarge { .. })));
    }
}

#[test]
fn what_does_not_become_what_it_claims_is_an_error() {
    for name in &STORED[1..] {
        for change in [-8_i64, 8] {
            let mut fatbin = bytes(name);
            let claimed = i64::from_le_bytes(*fatbin[16 + 56..].first_chunk().unwrap());
            fatbin[16 + 56..16 + 64].copy_from_slice(&(claimed + change).to_le_bytes());
            let entry = Fatbins::find(&fatbin).unwrap().entries().next().unwrap().unwrap();
            assert!(matches!(entry.bytes(), Err(FatbinError::Compressed { .. })), "{name} {change}");
        }
    }
}

proptest! {
    /// Whatever is overwritten: entries or errors, and an end.
    #[test]
    fn overwritten_bytes_are_never_a_panic(
        stored in 0..3_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut damaged = bytes(STORED[stored]);
        for (index, byte) in changes {
            let index = index.index(damaged.len());
            damaged[index] = byte;
        }
        if let Ok(fatbins) = Fatbins::find(&damaged) {
            for entry in fatbins.entries().flatten() {
                prop_assert!(entry.bytes().map_or(0, |bytes| bytes.len()) <= damaged.len() * 1024);
            }
        }
    }
}
