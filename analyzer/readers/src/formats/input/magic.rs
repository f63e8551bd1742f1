//! Files that are not read, by their first bytes: a message says which file they are, and how to get one that is.

use super::ARROW;

/// First bytes, the file that they begin, and a hint.
const KNOWN: [(&[u8], &str, &str); 12] = [
    (b"\xfd7zXZ\0", "is packed with xz", UNPACK),
    (b"BZh", "is packed with bzip2", UNPACK),
    (b"\x04\x22\x4d\x18", "is packed with lz4", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "is an archive of 7-Zip", UNPACK),
    (b"Rar!", "is an archive of RAR", UNPACK),
    (b"PAR1", "is one Parquet file", "give the folder of `nsys export -t parquetdir`"),
    (b"\x89HDF", "is an HDF5 file", "export the report with `nsys export -t sqlite`"),
    (ARROW, "is one Arrow file", "give the folder of `nsys export -t arrowdir`"),
    (b"\xff\xff\xff\xff", "is an Arrow stream", "export the report with `nsys export -t sqlite`"),
    (b"\x7fELF", "is a program or machine code", "give the recording of a profiler"),
    (b"<", "is a page or XML", "give the recording of a profiler"),
    (b"\x1f\x8b", "is packed with gzip in a way that cannot be read", UNPACK),
];
const UNPACK: &str = "unpack it first";

/// The file that bytes begin, and a hint. None if it is not known either.
pub(super) fn unread(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if head.is_empty() {
        return Some(("is empty", "the tool may not have finished it: write it again"));
    }
    if head.iter().all(u8::is_ascii_whitespace) {
        return Some(("has only spaces", "the tool may not have finished it: write it again"));
    }
    let known = KNOWN.iter().find(|(magic, ..)| head.starts_with(magic));
    known.map(|(_, file, hint)| (*file, *hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_which_file_it_is() {
        assert_eq!(unread(b"\x7fELF\x02").map(|(file, _)| file), Some("is a program or machine code"));
        assert_eq!(unread(b"").map(|(file, _)| file), Some("is empty"));
        assert_eq!(unread(b"\"ID\","), None);
    }
}
