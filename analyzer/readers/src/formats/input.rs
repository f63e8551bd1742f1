//! Files of other tools: recognized by their content, unpacked, and bounded.

pub(crate) mod archive;
mod lines;
mod magic;
mod utf16;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::{ReadError, ReadResult};
use flate2::read::MultiGzDecoder;

use self::lines::CsvReader;
use self::utf16::Utf16Reader;

/// Bytes of an unpacked file: larger ones are bombs, or need a smaller recording.
const MAX_BYTES: u64 = 64 << 30;
/// Bytes at the begin of a file that decide its form.
const HEAD_BYTES: usize = 4 << 10;
/// Spaces in front of the content.
const MAX_SPACES: usize = 1 << 20;
/// Packings around each other: an archive of a packed file.
const MAX_PACKINGS: usize = 3;
/// The first bytes of a report of Nsight Compute.
pub const REPORT: &[u8] = b"NVR\0";

/// The first bytes of an Arrow file.
pub(crate) const ARROW: &[u8] = b"ARROW1";
/// The first bytes of a report of Nsight Systems.
const SYSTEMS_REPORT: &[u8] = b"NVIDIA Tegra Profiler Report";

/// Content of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileForm {
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
    /// Planes of XLA's profiler.
    Space,
    /// A report of Nsight Compute.
    Report,
    /// An archive of Arrow files.
    ArrowTables,
    /// A report of Nsight Systems, as it records it.
    SystemsReport,
    /// A folder of Parquet files.
    Folder,
    /// Text that is not JSON.
    Text,
}

/// A file to import.
#[derive(Clone, Debug)]
pub struct ImportInput {
    /// The file.
    pub path: PathBuf,
    /// BLAKE3 of its bytes.
    pub hash: String,
    /// Its bytes, packed.
    pub bytes: u64,
    /// Its content.
    pub form: FileForm,
}

impl ImportInput {
    /// Reads a file once, for its hash and its form.
    pub fn from_path(path: &Path) -> ReadResult<Self> {
        let wrong = |error: io::Error| ReadError::io(error, format!("read `{}`", path.display()));
        let mut hasher = blake3::Hasher::new();
        if path.is_dir() {
            let bytes = read_folder(path, &mut hasher).map_err(wrong)?;
            let hash = hasher.finalize().to_hex().to_string();
            return Ok(Self { path: path.to_owned(), hash, bytes, form: FileForm::Folder });
        }
        let bytes = io::copy(&mut File::open(path).map_err(wrong)?, &mut hasher).map_err(wrong)?;
        let form = if archive::has_tables(path) {
            FileForm::ArrowTables
        } else {
            form(path, &head(&mut unpacked(path)?).map_err(wrong)?)?
        };
        Ok(Self { path: path.to_owned(), hash: hasher.finalize().to_hex().to_string(), bytes, form })
    }

    /// The unpacked bytes, bounded.
    pub fn open(&self) -> ReadResult<impl Read + use<>> {
        unpacked(&self.path)
    }

    /// The unpacked bytes of a text with bounded records: a parser holds one in memory.
    pub fn open_records(&self) -> ReadResult<impl Read + use<>> {
        Ok(CsvReader::new(self.open()?))
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

/// The bytes of a file, unpacked by its first bytes: of an archive, the only file in it.
fn unpacked(path: &Path) -> ReadResult<Box<dyn Read>> {
    let wrong = |error: io::Error| ReadError::io(error, format!("read `{}`", path.display()));
    let mut reader: Box<dyn Read> = match archive::zip(path)? {
        Some(member) => member,
        None => Box::new(BufReader::new(File::open(path).map_err(wrong)?)),
    };
    for _ in 0..MAX_PACKINGS {
        let mut first = vec![0; archive::TAR_BLOCK_BYTES];
        let length = read_start(&mut reader, &mut first).map_err(wrong)?;
        first.truncate(length);
        let kind = BytePacking::from_bytes(&first);
        let whole = Cursor::new(first).chain(reader);
        reader = match kind {
            BytePacking::Gzip => Box::new(bounded(MultiGzDecoder::new(BufReader::new(whole)))),
            BytePacking::Zstd => Box::new(bounded(zstd::Decoder::new(whole).map_err(wrong)?)),
            BytePacking::Tar => archive::tar(path, whole)?,
            BytePacking::Utf16 { is_little } => return Ok(Box::new(Utf16Reader::new(whole, is_little))),
            BytePacking::Utf8 => {
                let mut whole = whole;
                read_start(&mut whole, &mut [0; 3]).map_err(wrong)?;
                return Ok(Box::new(whole));
            }
            BytePacking::None => return Ok(Box::new(whole)),
        };
    }
    let message = format!("`{}` is packed more than {MAX_PACKINGS} times", path.display());
    Err(ReadError::message(message).hint("unpack it first".to_owned()))
}

/// The bytes of an archive of tables, unpacked from gzip or zstd.
pub(crate) fn archive_bytes(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut reader = BufReader::new(File::open(path)?);
    Ok(match BytePacking::from_bytes(reader.fill_buf()?) {
        BytePacking::Gzip => Box::new(BufReader::new(bounded(MultiGzDecoder::new(reader)))),
        BytePacking::Zstd => Box::new(BufReader::new(bounded(zstd::Decoder::with_buffer(reader)?))),
        _ => Box::new(reader),
    })
}

/// The outermost packing of bytes.
enum BytePacking {
    Gzip,
    Zstd,
    Tar,
    Utf16 {
        is_little: bool,
    },
    /// A byte order mark.
    Utf8,
    None,
}

impl BytePacking {
    fn from_bytes(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [0xef, 0xbb, 0xbf, ..] => Self::Utf8,
            [0xff, 0xfe, ..] => Self::Utf16 { is_little: true },
            [0xfe, 0xff, ..] => Self::Utf16 { is_little: false },
            _ if archive::is_tar(first) => Self::Tar,
            _ => Self::None,
        }
    }
}

/// The bytes that decide the form: the first ones, or those behind spaces.
fn head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut spaces = 0;
    loop {
        let length = read_start(reader, &mut head)?;
        head.truncate(length);
        let is_blank = length == HEAD_BYTES && head.iter().all(u8::is_ascii_whitespace);
        spaces += length;
        if !is_blank {
            return Ok(head);
        }
        if spaces >= MAX_SPACES {
            return Err(too_large("it begins with more than 1 MiB of spaces"));
        }
    }
}

/// The form of a file, by the bytes that decide it.
fn form(path: &Path, head: &[u8]) -> ReadResult<FileForm> {
    if let Some(form) = known_form(head) {
        return Ok(form);
    }
    let (reason, hint) = magic::unread(head)
        .unwrap_or(("is not a recording that stallmap knows", "docs/src/guide/import.md lists them"));
    Err(ReadError::message(format!("`{}` {reason}", path.display())).hint(hint.to_owned()))
}

/// The form of bytes. None if no tool that stallmap knows begins a file with them.
fn known_form(head: &[u8]) -> Option<FileForm> {
    if head.starts_with(b"SQLite format 3\0") {
        return Some(FileForm::Sqlite);
    }
    if head.starts_with(REPORT) {
        return Some(FileForm::Report);
    }
    if head.starts_with(SYSTEMS_REPORT) {
        return Some(FileForm::SystemsReport);
    }
    let first = head.get(..16).unwrap_or(head);
    match head {
        [0x80, 2..=5, ..] => Some(FileForm::Pickle),
        [0x90..=0x9f | 0xdc | 0xdd, ..] => Some(FileForm::MessagePack),
        _ => match head.iter().find(|byte| !byte.is_ascii_whitespace())? {
            b'{' | b'[' => Some(FileForm::Json),
            _ if is_space(head) => Some(FileForm::Space),
            // The first packet of a trace. A newline at the beginning of a text has texts behind it.
            _ if head.first() == Some(&b'\n') && first.iter().copied().any(is_binary) => {
                Some(FileForm::Packets)
            }
            _ if first.iter().copied().any(is_binary) || magic::unread(head).is_some() => None,
            _ => Some(FileForm::Text),
        },
    }
}

/// True for the first plane of a space: a message with a number, or none, and a name.
fn is_space(head: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"/host:", b"/device:", b"Task Environment"];
    let begins_plane = |rest: &[u8]| match rest {
        [0x12, _, name @ ..] => NAMES.iter().any(|known| name.starts_with(known)),
        _ => false,
    };
    let is_end = |byte: &u8| *byte < 0x80;
    let after = |bytes: &[u8]| bytes.iter().take(10).position(is_end).map(|end| end + 1);
    let plane = head.strip_prefix(b"\n").and_then(|rest| rest.get(after(rest)?..));
    let unnumbered = || plane?.strip_prefix(b"\x08").and_then(|rest| rest.get(after(rest)?..));
    plane.is_some_and(begins_plane) || unnumbered().is_some_and(begins_plane)
}

/// True for bytes that no ASCII text has.
fn is_binary(byte: u8) -> bool {
    !byte.is_ascii() || byte.is_ascii_control() && !byte.is_ascii_whitespace()
}

/// Reads up to the length of a buffer. Returns the number of bytes: those before a failure, if there are any.
fn read_start(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match reader.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if length == 0 || error.kind() == ErrorKind::InvalidData => return Err(error),
            Err(_) => break,
        }
    }
    Ok(length)
}

fn too_large(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

/// A reader that fails after a number of bytes.
struct BoundedReader {
    reader: Box<dyn Read>,
    left: u64,
}

fn bounded(reader: impl Read + 'static) -> BoundedReader {
    BoundedReader { reader: Box::new(reader), left: MAX_BYTES }
}

impl Read for BoundedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.left =
            self.left.checked_sub(count as u64).ok_or_else(|| too_large("it unpacks to more than 64 GiB"))?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_the_form() {
        let form = known_form;
        assert_eq!(form(b"SQLite format 3\0"), Some(FileForm::Sqlite));
        assert_eq!(form(b"\x80\x04\x95"), Some(FileForm::Pickle));
        assert_eq!(form(b" \n[{"), Some(FileForm::Json));
        assert_eq!(form(b"\x92\x83\xa5frame"), Some(FileForm::MessagePack));
        assert_eq!(form(b"NVR\0\x02\0\0\0\x08\x07"), Some(FileForm::Report));
        assert_eq!(form(b"\"ID\",\"Process ID\""), Some(FileForm::Text));
        assert_eq!(form(b"\n\x1b\x40\x80\xa8\x96"), Some(FileForm::Packets));
        assert_eq!(form(b"\n\xa9\xc2\x0b\x12\x0e/host:metadata\""), Some(FileForm::Space));
        assert_eq!(form(b"\n\x40\x08\x07\x12\x0d/device:GPU:0"), Some(FileForm::Space));
        assert_eq!(form(b"\n\"ID\",\"Process ID\""), Some(FileForm::Text));
        assert_eq!(form(b"NVIDIA Tegra Profiler Report 2026@1"), Some(FileForm::SystemsReport));
        assert_eq!((form(b""), form(b"\x7fELF\x02")), (None, None));
    }

    #[test]
    fn spaces_and_bombs_end() {
        let blanks = || io::repeat(b' ').take(5000);
        assert_eq!(known_form(&head(&mut blanks().chain(&b"{"[..])).unwrap()), Some(FileForm::Json));
        assert!(head(&mut io::repeat(b' ')).is_err());
        let mut bounded = BoundedReader { reader: Box::new(io::repeat(0)), left: 1000 };
        assert!(io::copy(&mut bounded, &mut io::sink()).is_err());
    }
}
