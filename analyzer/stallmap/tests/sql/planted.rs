//! Redacted machine code: secrets in every kind of place of a cubin, in several encodings.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use stallmap::redact::{Also, Options, redact};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::TableRow as _;
use stallmap_schema::tables::code::Module;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::elf::{Elf, Place};
use crate::tiny;

/// An encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16,
    Hex,
    Base64,
}

const ENCODINGS: [Encoding; 4] = [Encoding::Utf8, Encoding::Utf16, Encoding::Hex, Encoding::Base64];

/// Places whose bytes become zeros.
const ZEROED: [Place; 12] = [
    Place::Section(".debug_info", 1),
    Place::Section(".debug_abbrev", 1),
    Place::Section(".nv_debug_ptx_txt", 1),
    Place::Section(".nv.constant0.canary", 1),
    Place::Section(".note.canary", 7),
    Place::Section(".comment", 1),
    Place::Section(".canary", 0x7000_00ff),
    Place::Section("", 1),
    Place::Unnamed,
    Place::Gap,
    Place::End,
    Place::FirstHeader,
];
/// Data, which stays without the texts that name places or people.
const DATA: [Place; 6] = [
    Place::Section(".nv.constant2.canary", 1),
    Place::Section(".nv.constant3", 1),
    Place::Section(".nv.global.init", 1),
    Place::Section(".rodata", 1),
    Place::Section(".data", 1),
    Place::Section(".debug_str", 1),
];
/// Names of code, which stay without folders.
const NAMES: [Place; 3] = [Place::Function, Place::Variable, Place::NameOfSection];
/// Code and numbers, which stay.
const NUMBERS: [Place; 5] = [
    Place::Section(".text.canary", 1),
    Place::Section(".nv.info.canary", 0x7000_0000),
    Place::Section(".rela.text.canary", 4),
    Place::Section(".nv.callgraph", 0x7000_0001),
    Place::Section(".debug_frame", 1),
];

fn secret(number: usize) -> String {
    format!("/home/canaryperson/Canary{number}Folder/x.cu")
}

fn encoded(encoding: Encoding, text: &str) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Utf16 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Encoding::Hex => text
            .bytes()
            .fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            })
            .into_bytes(),
        Encoding::Base64 => base64(text.as_bytes()),
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
fn with_cubin(folder: &Path, change: impl FnOnce(&mut Elf)) -> (PathBuf, Vec<u8>) {
    let (sound, planted) = (folder.join("sound"), folder.join("planted"));
    tiny::write(&sound, CaptureForm::File).unwrap();
    let reader = CaptureReader::open(&sound).unwrap();
    let file = reader.manifest().files[0].path.clone();
    let mut elf = Elf::read(&zstd::decode_all(&reader.entry(&file).unwrap()[..]).unwrap());
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
fn planted(folder: &Path, places: &[Place], encoding: Encoding) -> PathBuf {
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
fn redacted_cubins(reader: &CaptureReader, folder: &Path, also: &[Also]) -> Result<Vec<u8>, String> {
    let output = folder.join("redacted");
    let also = also.iter().copied().collect();
    let options = Options { salt: b"salt".to_vec(), also, ..Options::default() };
    redact(reader, &options, &output).map_err(|error| error.to_string())?;
    let redacted = CaptureReader::open(&output).unwrap();
    let cubins = redacted.entry_names().filter(|name| entry::is_compressed(name));
    Ok(cubins.flat_map(|name| zstd::decode_all(&redacted.entry(name).unwrap()[..]).unwrap()).collect())
}

/// The places in which a secret is left, or the refusal to write any.
fn left(places: &[Place], encoding: Encoding, also: &[Also]) -> Result<Vec<Place>, String> {
    let folder = tempfile::tempdir().unwrap();
    let reader = CaptureReader::open(&planted(folder.path(), places, encoding)).unwrap();
    let cubins = redacted_cubins(&reader, folder.path(), also)?;
    assert!(cubins.starts_with(b"\x7fELF"), "the cubin stays");
    // The secret is the folder and the person: the file's name stays by default.
    let is_left = |number: usize| {
        let whole = secret(number);
        let parts = [whole.as_str(), "canaryperson"];
        let parts =
            if matches!(encoding, Encoding::Utf8 | Encoding::Utf16) { &parts[..] } else { &parts[..1] };
        parts.iter().any(|part| holds(&cubins, &encoded(encoding, part)))
    };
    Ok((0..places.len()).filter(|number| is_left(*number)).map(|number| places[number]).collect())
}

const EACH: [&[Also]; 6] = [
    &[],
    &[Also::Symbols],
    &[Also::Names],
    &[Also::Files],
    &[Also::Times],
    &[Also::Symbols, Also::Names, Also::Files, Also::Times],
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
            let is_readable = matches!(encoding, Encoding::Utf8 | Encoding::Utf16);
            let goes = is_readable || also.contains(&Also::Symbols);
            for places in [&DATA[..], &NAMES] {
                // A name of two bytes a character is none: it ends at its first zero.
                if places == NAMES && encoding == Encoding::Utf16 {
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
    for encoding in [Encoding::Utf8, Encoding::Hex, Encoding::Base64] {
        for also in EACH {
            let goes = encoding == Encoding::Utf8 || also.contains(&Also::Files);
            let expected = if goes { Vec::new() } else { vec![Place::File] };
            assert_eq!(left(&[Place::File], encoding, also), Ok(expected), "{encoding:?} {also:?}");
        }
    }
}

/// Code and numbers are not changed. A secret that the search knows is found there, and nothing is written.
#[test]
fn a_secret_among_numbers_is_found() {
    for place in NUMBERS {
        for encoding in ENCODINGS {
            let result = left(&[place, Place::Section(".data", 1)], encoding, &[Also::Symbols]);
            if matches!(encoding, Encoding::Utf8 | Encoding::Utf16) {
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
    let wide = encoded(Encoding::Utf16, "by canaryperson for AcmeCorporation");
    let (planted, _) = with_cubin(folder.path(), |elf| {
        elf.plant(Place::Section(".data", 1), secret(0).as_bytes());
        elf.plant(Place::Section(".rodata", 1), &wide);
    });
    let reader = CaptureReader::open(&planted).unwrap();
    for (also, customer_stays) in [(&[][..], true), (&[Also::Symbols], false)] {
        let folder = tempfile::tempdir().unwrap();
        let cubins = redacted_cubins(&reader, folder.path(), also).unwrap();
        assert!(!holds(&cubins, &encoded(Encoding::Utf16, "canaryperson")), "{also:?}");
        assert_eq!(holds(&cubins, &encoded(Encoding::Utf16, "AcmeCorporation")), customer_stays, "{also:?}");
    }
}

/// Bytes between the fields of larger headers would count as headers, and stay.
#[test]
fn a_cubin_with_larger_headers_does_not_go_along() {
    let folder = tempfile::tempdir().unwrap();
    let (planted, cubin) = with_cubin(folder.path(), |elf| {
        elf.plant(Place::End, secret(0).as_bytes());
        elf.set_segment_bytes(64);
    });
    assert!(holds(&cubin, secret(0).as_bytes()));
    let reader = CaptureReader::open(&planted).unwrap();
    assert!(redacted_cubins(&reader, folder.path(), &[]).unwrap().is_empty());
}
