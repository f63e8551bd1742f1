//! Redacted machine code: secrets in every kind of place of a cubin, in several encodings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use stallmap::redact::{AlsoRedact, RedactOptions, redact};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::TableRow as _;
use stallmap_schema::tables::code::Module;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::elf::{ElfPosition, TestElf};
use crate::tiny;

/// An encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextEncoding {
    Utf8,
    Utf16,
    Hex,
    Base64,
}

const ENCODINGS: [TextEncoding; 4] =
    [TextEncoding::Utf8, TextEncoding::Utf16, TextEncoding::Hex, TextEncoding::Base64];

/// Places whose bytes become zeros.
const ZEROED: [ElfPosition; 12] = [
    ElfPosition::Section(".debug_info", 1),
    ElfPosition::Section(".debug_abbrev", 1),
    ElfPosition::Section(".nv_debug_ptx_txt", 1),
    ElfPosition::Section(".nv.constant0.canary", 1),
    ElfPosition::Section(".note.canary", 7),
    ElfPosition::Section(".comment", 1),
    ElfPosition::Section(".canary", 0x7000_00ff),
    ElfPosition::Section("", 1),
    ElfPosition::Unnamed,
    ElfPosition::Gap,
    ElfPosition::End,
    ElfPosition::FirstHeader,
];
/// Data, which stays without the texts that name places or people.
const DATA: [ElfPosition; 6] = [
    ElfPosition::Section(".nv.constant2.canary", 1),
    ElfPosition::Section(".nv.constant3", 1),
    ElfPosition::Section(".nv.global.init", 1),
    ElfPosition::Section(".rodata", 1),
    ElfPosition::Section(".data", 1),
    ElfPosition::Section(".debug_str", 1),
];
/// Names of code, which stay without folders.
const NAMES: [ElfPosition; 3] = [ElfPosition::Function, ElfPosition::Variable, ElfPosition::NameOfSection];
/// Code and numbers, which stay.
const NUMBERS: [ElfPosition; 5] = [
    ElfPosition::Section(".text.canary", 1),
    ElfPosition::Section(".nv.info.canary", 0x7000_0000),
    ElfPosition::Section(".rela.text.canary", 4),
    ElfPosition::Section(".nv.callgraph", 0x7000_0001),
    ElfPosition::Section(".debug_frame", 1),
];

fn secret(number: usize) -> String {
    format!("/home/canaryperson/Canary{number}Folder/x.cu")
}

fn encoded(encoding: TextEncoding, text: &str) -> Vec<u8> {
    match encoding {
        TextEncoding::Utf8 => text.as_bytes().to_vec(),
        TextEncoding::Utf16 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        TextEncoding::Hex => text
            .bytes()
            .fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            })
            .into_bytes(),
        TextEncoding::Base64 => base64(text.as_bytes()),
    }
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let digits = bytes.chunks(3).flat_map(|chunk| {
        let number = chunk
            .iter()
            .chain(&[0; 2])
            .take(3)
            .fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        (0..=chunk.len()).map(move |digit| DIGITS[number >> (18 - 6 * digit) & 63])
    });
    digits.collect()
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    // A header has room for as many.
    let part = &part[..part.len().min(56)];
    bytes.windows(part.len()).any(|window| window == part)
}

/// The example with another cubin.
fn with_cubin(folder: &Path, change: impl FnOnce(&mut TestElf)) -> (PathBuf, Vec<u8>) {
    let (sound, planted) = (folder.join("sound"), folder.join("planted"));
    tiny::write(&sound, CaptureForm::File).unwrap();
    let reader = CaptureReader::open(&sound).unwrap();
    let file = reader.manifest().files[0].path.clone();
    let mut elf = TestElf::read(&zstd::decode_all(&reader.entry(&file).unwrap()[..]).unwrap());
    change(&mut elf);
    let cubin = elf.write();
    let mut writer = CaptureWriter::create(&planted, CaptureForm::File).unwrap();
    let hash = blake3::hash(&cubin).to_hex().to_string();
    let file = writer.add_cubin(&hash, &cubin).unwrap();
    for table in reader.tables().iter().filter(|table| table.name != Module::TABLE.name) {
        writer.take_table(&reader, table).unwrap();
    }
    let mut modules = reader.read_rows::<Module>().unwrap();
    for module in &mut modules {
        (module.content_hash, module.file) = (hash.clone(), Some(file.clone()));
        module.cubin_bytes = cubin.len() as u64;
    }
    writer.append_rows(modules).unwrap();
    writer.finish().unwrap();
    (planted, cubin)
}

/// The example with a secret in each of some places of its cubin.
fn planted(folder: &Path, places: &[ElfPosition], encoding: TextEncoding) -> PathBuf {
    let secrets: Vec<_> = (0..places.len()).map(|number| encoded(encoding, &secret(number))).collect();
    let (planted, cubin) = with_cubin(folder, |elf| {
        places.iter().zip(&secrets).for_each(|(place, secret)| elf.plant(*place, secret));
    });
    for (place, secret) in places.iter().zip(&secrets) {
        assert!(holds(&cubin, secret), "{place:?}");
    }
    planted
}

/// The cubins of a redacted capture, one after the other.
fn redacted_cubins(reader: &CaptureReader, folder: &Path, also: &[AlsoRedact]) -> Result<Vec<u8>, String> {
    let output = folder.join("redacted");
    let also = also.iter().copied().collect();
    let options = RedactOptions { salt: b"salt".to_vec(), also, ..RedactOptions::default() };
    redact(reader, &options, &output).map_err(|error| error.to_string())?;
    let redacted = CaptureReader::open(&output).unwrap();
    let cubins = redacted.entry_names().filter(|name| entry::is_compressed(name));
    Ok(cubins.flat_map(|name| zstd::decode_all(&redacted.entry(name).unwrap()[..]).unwrap()).collect())
}

/// The places in which a secret is left, or the refusal to write any.
fn left(
    places: &[ElfPosition],
    encoding: TextEncoding,
    also: &[AlsoRedact],
) -> Result<Vec<ElfPosition>, String> {
    let folder = tempfile::tempdir().unwrap();
    let reader = CaptureReader::open(&planted(folder.path(), places, encoding)).unwrap();
    let cubins = redacted_cubins(&reader, folder.path(), also)?;
    assert!(cubins.starts_with(b"\x7fELF"), "the cubin stays");
    // The secret is the folder and the person: the file's name stays by default.
    let is_left = |number: usize| {
        let whole = secret(number);
        let parts = [whole.as_str(), "canaryperson"];
        let parts = if matches!(encoding, TextEncoding::Utf8 | TextEncoding::Utf16) {
            &parts[..]
        } else {
            &parts[..1]
        };
        parts.iter().any(|part| holds(&cubins, &encoded(encoding, part)))
    };
    Ok((0..places.len()).filter(|number| is_left(*number)).map(|number| places[number]).collect())
}

const EACH: [&[AlsoRedact]; 6] = [
    &[],
    &[AlsoRedact::Symbols],
    &[AlsoRedact::Names],
    &[AlsoRedact::Files],
    &[AlsoRedact::Times],
    &[AlsoRedact::Symbols, AlsoRedact::Names, AlsoRedact::Files, AlsoRedact::Times],
];

#[test]
fn no_secret_is_left_where_no_reader_looks() {
    for encoding in ENCODINGS {
        for also in EACH {
            let left = left(&ZEROED, encoding, also);
            assert_eq!(left, Ok(Vec::new()), "{encoding:?} {also:?}");
        }
    }
}

#[test]
fn data_and_names_lose_texts_that_name_places() {
    for encoding in ENCODINGS {
        for also in EACH {
            let is_readable = matches!(encoding, TextEncoding::Utf8 | TextEncoding::Utf16);
            let goes = is_readable || also.contains(&AlsoRedact::Symbols);
            for places in [&DATA[..], &NAMES] {
                // A name of two bytes a character is none: it ends at its first zero.
                if places == NAMES && encoding == TextEncoding::Utf16 {
                    continue;
                }
                let left = left(places, encoding, also);
                let expected = if goes { Vec::new() } else { places.to_vec() };
                assert_eq!(left, Ok(expected), "{encoding:?} {also:?}");
            }
        }
    }
}

#[test]
fn the_name_of_a_source_file_goes_on_request() {
    for encoding in [TextEncoding::Utf8, TextEncoding::Hex, TextEncoding::Base64] {
        for also in EACH {
            let goes = encoding == TextEncoding::Utf8 || also.contains(&AlsoRedact::Files);
            let expected = if goes { Vec::new() } else { vec![ElfPosition::File] };
            assert_eq!(left(&[ElfPosition::File], encoding, also), Ok(expected), "{encoding:?} {also:?}");
        }
    }
}

/// Code and numbers are not changed. A secret that the search knows is found there, and nothing is written.
#[test]
fn a_secret_among_numbers_is_found() {
    for place in NUMBERS {
        for encoding in ENCODINGS {
            let result = left(&[place, ElfPosition::Section(".data", 1)], encoding, &[AlsoRedact::Symbols]);
            if matches!(encoding, TextEncoding::Utf8 | TextEncoding::Utf16) {
                let refused = result.unwrap_err();
                assert!(refused.contains("remains in entry `cubins/"), "{place:?} {encoding:?}: {refused}");
            } else {
                assert_eq!(result, Ok(vec![place]), "{encoding:?}");
            }
        }
    }
}

#[test]
fn texts_of_two_bytes_a_character_follow_the_same_rules() {
    let folder = tempfile::tempdir().unwrap();
    let wide = encoded(TextEncoding::Utf16, "by canaryperson for AcmeCorporation");
    let (planted, _) = with_cubin(folder.path(), |elf| {
        elf.plant(ElfPosition::Section(".data", 1), secret(0).as_bytes());
        elf.plant(ElfPosition::Section(".rodata", 1), &wide);
    });
    let reader = CaptureReader::open(&planted).unwrap();
    for (also, customer_stays) in [(&[][..], true), (&[AlsoRedact::Symbols], false)] {
        let folder = tempfile::tempdir().unwrap();
        let cubins = redacted_cubins(&reader, folder.path(), also).unwrap();
        assert!(!holds(&cubins, &encoded(TextEncoding::Utf16, "canaryperson")), "{also:?}");
        assert_eq!(
            holds(&cubins, &encoded(TextEncoding::Utf16, "AcmeCorporation")),
            customer_stays,
            "{also:?}"
        );
    }
}

/// Bytes between the fields of larger headers would count as headers, and stay.
#[test]
fn a_cubin_with_larger_headers_does_not_go_along() {
    let folder = tempfile::tempdir().unwrap();
    let (planted, cubin) = with_cubin(folder.path(), |elf| {
        elf.plant(ElfPosition::End, secret(0).as_bytes());
        elf.set_segment_bytes(64);
    });
    assert!(holds(&cubin, secret(0).as_bytes()));
    let reader = CaptureReader::open(&planted).unwrap();
    assert!(redacted_cubins(&reader, folder.path(), &[]).unwrap().is_empty());
}
