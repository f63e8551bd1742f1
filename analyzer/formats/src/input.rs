//! Files of other tools: recognized by their content, unpacked, and bounded.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use stallmap_console::exit::{Failure, Outcome};

/// Most bytes of an unpacked file: larger ones are bombs, or need a smaller recording.
const MOST_BYTES: u64 = 64 << 30;
/// The first bytes of a report of Nsight Compute.
pub const REPORT: &[u8] = b"NVR\0";
/// Most bytes of one text in JSON. Names of kernels are the longest, with some ten thousand.
const MOST_TEXT_BYTES: usize = 1 << 20;

/// Content of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON, packed or not.
    Json,
    /// A database of SQLite.
    Sqlite,
    /// A pickle of protocol 2 to 5.
    Pickle,
    /// An array in MessagePack.
    MessagePack,
    /// Packets of Perfetto.
    Packets,
    /// A report of Nsight Compute.
    Report,
    /// A folder of Parquet files.
    Folder,
    /// Text that is not JSON.
    Text,
}

/// A file to import.
#[derive(Clone, Debug)]
pub struct Input {
    /// The file.
    pub path: PathBuf,
    /// BLAKE3 of its bytes.
    pub hash: String,
    /// Its bytes, packed.
    pub bytes: u64,
    /// Its content.
    pub form: Form,
}

impl Input {
    /// Reads a file once, for its hash and its form.
    pub fn of(path: &Path) -> Outcome<Self> {
        let wrong = |error: io::Error| Failure::io(error, format!("read `{}`", path.display()));
        let mut hasher = blake3::Hasher::new();
        if path.is_dir() {
            let bytes = read_folder(path, &mut hasher).map_err(wrong)?;
            let hash = hasher.finalize().to_hex().to_string();
            return Ok(Self { path: path.to_owned(), hash, bytes, form: Form::Folder });
        }
        let bytes = io::copy(&mut File::open(path).map_err(wrong)?, &mut hasher).map_err(wrong)?;
        let mut head = [0; 16];
        let length = read_start(&mut unpacked(path).map_err(wrong)?, &mut head).map_err(wrong)?;
        let form = form(&head[..length]);
        Ok(Self { path: path.to_owned(), hash: hasher.finalize().to_hex().to_string(), bytes, form })
    }

    /// The unpacked bytes, bounded.
    pub fn open(&self) -> Outcome<impl Read + use<>> {
        unpacked(&self.path).map_err(|error| Failure::io(error, format!("read `{}`", self.path.display())))
    }

    /// The unpacked bytes of JSON, with bounded texts.
    pub fn open_json(&self) -> Outcome<impl Read + use<>> {
        Ok(Texts { reader: BufReader::new(self.open()?), is_inside: false, is_escaped: false, length: 0 })
    }
}

/// Adds the names and bytes of a folder's files to a hash, by name. Returns the number of bytes.
fn read_folder(path: &Path, hasher: &mut blake3::Hasher) -> io::Result<u64> {
    let mut files =
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.is_file());
    files.sort_unstable();
    let mut bytes = 0;
    for file in files {
        hasher.update(file.file_name().unwrap_or_default().as_encoded_bytes());
        bytes += io::copy(&mut File::open(&file)?, hasher)?;
    }
    Ok(bytes)
}

/// The bytes of a file, unpacked by its first bytes.
fn unpacked(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = File::open(path)?;
    let mut head = [0; 4];
    let length = read_start(&mut file, &mut head)?;
    file.rewind()?;
    let reader: Box<dyn Read> = match &head[..length] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(BufReader::new(file))),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::Decoder::new(file)?),
        _ => Box::new(file),
    };
    Ok(Box::new(Bounded { reader, left: MOST_BYTES }))
}

fn form(head: &[u8]) -> Form {
    if head.starts_with(b"SQLite format 3\0") {
        return Form::Sqlite;
    }
    if head.starts_with(REPORT) {
        return Form::Report;
    }
    match head {
        [0x80, 2..=5, ..] => Form::Pickle,
        [0x90..=0x9f | 0xdc | 0xdd, ..] => Form::MessagePack,
        _ => match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{' | b'[') => Form::Json,
            // The first packet of a trace. A newline at the beginning of a text has texts behind it.
            _ if head.first() == Some(&b'\n') && head.iter().copied().any(is_binary) => Form::Packets,
            _ => Form::Text,
        },
    }
}

/// True for bytes that no ASCII text has.
fn is_binary(byte: u8) -> bool {
    !byte.is_ascii() || byte.is_ascii_control() && !byte.is_ascii_whitespace()
}

/// Reads up to the length of a buffer. Returns the number of bytes.
fn read_start(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match reader.read(&mut buffer[length..])? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

fn too_large(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// A reader that fails after a number of bytes.
struct Bounded {
    reader: Box<dyn Read>,
    left: u64,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.left =
            self.left.checked_sub(count as u64).ok_or_else(|| too_large("it unpacks to more than 64 GiB"))?;
        Ok(count)
    }
}

/// A reader of JSON that fails inside of a long text: a parser would hold it in memory.
struct Texts<R> {
    reader: R,
    is_inside: bool,
    is_escaped: bool,
    length: usize,
}

impl<R: Read> Read for Texts<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        for byte in &buffer[..count] {
            self.length = if self.is_inside { self.length + 1 } else { 0 };
            match (self.is_inside, self.is_escaped, byte) {
                (true, true, _) => self.is_escaped = false,
                (true, false, b'\\') => self.is_escaped = true,
                (_, false, b'"') => self.is_inside = !self.is_inside,
                _ => {}
            }
        }
        if self.length > MOST_TEXT_BYTES { Err(too_large("a text has more than 1 MiB")) } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_the_form() {
        assert_eq!(form(b"SQLite format 3\0"), Form::Sqlite);
        assert_eq!(form(b"\x80\x04\x95"), Form::Pickle);
        assert_eq!(form(b" \n[{"), Form::Json);
        assert_eq!(form(b"\x92\x83\xa5frame"), Form::MessagePack);
        assert_eq!(form(b"NVR\0\x02\0\0\0\x08\x07"), Form::Report);
        assert_eq!(form(b"\"ID\",\"Process ID\""), Form::Text);
        assert_eq!(form(b"\n\x1b\x40\x80\xa8\x96"), Form::Packets);
        assert_eq!(form(b"\n\"ID\",\"Process ID\""), Form::Text);
        assert_eq!(form(b""), Form::Text);
    }

    #[test]
    fn long_texts_and_bombs_end() {
        let read = |text: &str| {
            let mut texts = Texts { reader: text.as_bytes(), is_inside: false, is_escaped: false, length: 0 };
            io::copy(&mut texts, &mut io::sink())
        };
        let long = "x".repeat(2 << 20);
        assert!(read(&format!("{{\"a\": \"{long}\"}}")).is_err());
        assert!(read(&format!("{{\"a\\\"\": \"b\"}} {long}")).is_ok());
        let mut bounded = Bounded { reader: Box::new(io::repeat(0)), left: 1000 };
        assert!(io::copy(&mut bounded, &mut io::sink()).is_err());
    }
}
