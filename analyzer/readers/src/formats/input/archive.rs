//! Archives with one file. Of several files only the user knows the recording.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;

use crate::error::{ReadError, ReadResult};
use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::{ARROW, archive_bytes, bounded, read_start};

/// Bytes of a block of a tar archive.
pub(super) const TAR_BLOCK_BYTES: usize = 512;
/// Entries of an archive in front of its file.
const MAX_ENTRIES: usize = 1000;

/// The only file of a ZIP archive. None if it is not one.
pub(super) fn zip(path: &Path) -> ReadResult<Option<Box<dyn Read>>> {
    let wrong = |error: io::Error| ReadError::io(error, format!("read `{}`", path.display()));
    let mut file = File::open(path).map_err(wrong)?;
    let mut magic = [0; 4];
    read_start(&mut file, &mut magic).map_err(wrong)?;
    if !magic.starts_with(b"PK\x03\x04") {
        return Ok(None);
    }
    let broken = |reason: &str| {
        let message = format!("`{}` is a ZIP archive that cannot be read: {reason}", path.display());
        ReadError::message(message).hint("unpack it, and import the recording in it".to_owned())
    };
    let mut archive = ZipArchive::new(file).map_err(|error| broken(&error.to_string()))?;
    if archive.file_names().flatten().any(|name| name.starts_with("tables/")) {
        let message = format!("`{}` is a capture of stallmap already", path.display());
        return Err(ReadError::message(message).hint("open it: `stallmap FILE`".to_owned()));
    }
    let files: Vec<usize> = (0..archive.len())
        .filter(|place| !matches!(archive.name_for_index(*place), Some(Ok(name)) if is_aside(&name)))
        .collect();
    let [place] = files.as_slice() else { return Err(not_one(path, "ZIP", files.len())) };
    let member = archive.by_index_raw(*place).map_err(|error| broken(&error.to_string()))?;
    let (method, bytes) = (member.compression(), member.compressed_size());
    let begin = member.data_start();
    drop(member);
    let mut file = archive.into_inner();
    let begin = begin.ok_or_else(|| broken("its file has no begin"))?;
    file.seek(SeekFrom::Start(begin)).map_err(wrong)?;
    match method {
        CompressionMethod::Stored => Ok(Some(Box::new(file.take(bytes)))),
        CompressionMethod::DEFLATE => Ok(Some(Box::new(bounded(DeflateDecoder::new(file.take(bytes)))))),
        method => Err(broken(&format!("its method is {method}"))),
    }
}

/// Folders, and what systems add to an archive.
fn is_aside(name: &str) -> bool {
    name.ends_with('/') || name.starts_with("__MACOSX/")
}

/// True if a block is the head of a tar archive.
pub(super) fn is_tar(block: &[u8]) -> bool {
    block.get(257..262) == Some(b"ustar")
}

/// True for a tar archive, packed or not, whose first file is one of Arrow. What cannot be read is none.
pub(super) fn has_tables(path: &Path) -> bool {
    let mut first = [0; TAR_BLOCK_BYTES + ARROW.len()];
    let result = archive_bytes(path).and_then(|mut bytes| read_start(&mut bytes, &mut first));
    result.is_ok() && is_tar(&first) && first.ends_with(ARROW)
}

/// The only file of a tar archive.
pub(super) fn tar(path: &Path, mut reader: impl Read + 'static) -> ReadResult<Box<dyn Read>> {
    let wrong = |error: io::Error| ReadError::io(error, format!("read `{}`", path.display()));
    for _ in 0..MAX_ENTRIES {
        let Some(entry) = tar_entry(&mut reader).map_err(wrong)? else { break };
        if entry.is_file {
            return Ok(Box::new(OnlyFile { reader, left: entry.bytes, padding: padding(entry.bytes) }));
        }
        entry.skip(&mut reader).map_err(wrong)?;
    }
    Err(not_one(path, "tar", 0))
}

/// Visits the files of a tar archive: the name, and the content, of which any part may be read. Returns their number.
pub(crate) fn tar_files(
    reader: &mut impl Read,
    mut visit: impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> io::Result<usize> {
    let mut count = 0;
    while count < MAX_ENTRIES {
        let Some(entry) = tar_entry(reader)? else { break };
        if !entry.is_file {
            entry.skip(reader)?;
            continue;
        }
        let mut content = reader.take(entry.bytes);
        visit(&entry.name, &mut content)?;
        let left = content.limit();
        if io::copy(&mut reader.take(left), &mut io::sink())? < left {
            return Err(ends_early());
        }
        io::copy(&mut reader.take(padding(entry.bytes)), &mut io::sink())?;
        count += 1;
    }
    Ok(count)
}

/// The head of an entry.
struct TarEntry {
    name: String,
    is_file: bool,
    bytes: u64,
}

impl TarEntry {
    /// Skips its content.
    fn skip(&self, reader: &mut impl Read) -> io::Result<()> {
        io::copy(&mut reader.take(self.bytes + padding(self.bytes)), &mut io::sink()).map(drop)
    }
}

/// The next entry. None at the end.
fn tar_entry(reader: &mut impl Read) -> io::Result<Option<TarEntry>> {
    let mut block = [0; TAR_BLOCK_BYTES];
    if read_start(reader, &mut block)? < TAR_BLOCK_BYTES || !is_tar(&block) {
        return Ok(None);
    }
    let digits = block[124..136].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b' ');
    let bytes = digits.filter(|byte| **byte != b' ').fold(0_u64, |sum, digit| {
        sum.saturating_mul(8).saturating_add(u64::from(digit.saturating_sub(b'0')))
    });
    let is_hidden = block.starts_with(b"._") || block.starts_with(b"./._");
    let name = block[..100].split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Ok(Some(TarEntry { name, is_file: matches!(block[156], b'0' | 0) && !is_hidden, bytes }))
}

/// Bytes behind a content up to the next block.
fn padding(bytes: u64) -> u64 {
    let block = TAR_BLOCK_BYTES as u64;
    (block - bytes % block) % block
}

/// The content of a file, which fails if another one follows.
struct OnlyFile<R> {
    reader: R,
    left: u64,
    padding: u64,
}

impl<R: Read> Read for OnlyFile<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left > 0 {
            let count = self.reader.by_ref().take(self.left).read(buffer)?;
            self.left -= count as u64;
            return if count == 0 && !buffer.is_empty() { Err(ends_early()) } else { Ok(count) };
        }
        io::copy(&mut self.reader.by_ref().take(std::mem::take(&mut self.padding)), &mut io::sink())?;
        while let Some(entry) = tar_entry(&mut self.reader)? {
            if entry.is_file {
                let message = "it is an archive of several files: unpack it, and import the recording in it";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            entry.skip(&mut self.reader)?;
        }
        Ok(0)
    }
}

fn ends_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends in its file")
}

fn not_one(path: &Path, kind: &str, files: usize) -> ReadError {
    let count = if files == 0 { "no file".to_owned() } else { format!("{files} files") };
    ReadError::message(format!("`{}` is a {kind} archive with {count}", path.display()))
        .hint("unpack it, and import the recording in it".to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn archives_of_tables_may_be_packed() {
        let mut block = vec![0; TAR_BLOCK_BYTES];
        block[257..262].copy_from_slice(b"ustar");
        let bytes = [&block, ARROW].concat();
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(&bytes).unwrap();
        let packed = writer.finish().unwrap();
        let is_one = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            has_tables(file.path())
        };
        assert!(is_one(&bytes) && is_one(&packed) && is_one(&zstd::encode_all(bytes.as_slice(), 1).unwrap()));
        assert!(!is_one(&packed[..8]) && !is_one(b""));
    }
}
