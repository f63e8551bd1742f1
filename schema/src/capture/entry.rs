//! Names of a capture's entries: a list of what a capture holds, and nothing else.

/// The manifest's entry.
pub const MANIFEST: &str = "manifest.json";
/// In the ZIP form an entry's data begins at a multiple of this many bytes of the file.
pub const ALIGNMENT: u16 = 64;
/// Most bytes of a name.
const MAX_BYTES: usize = 255;

/// The entry of a table.
pub fn table(name: &str) -> String {
    format!("tables/{name}.parquet")
}

/// True if the entry is a table's.
pub fn is_table(name: &str) -> bool {
    between(name, "tables/", ".parquet").is_some_and(is_plain)
}

/// The entry of a cubin, named by the BLAKE3 hash of the cubin as loaded, in hexadecimal digits.
pub fn cubin(content_hash: &str) -> String {
    format!("cubins/{content_hash}.cubin.zst")
}

/// True if the entry is a cubin's.
pub fn is_cubin(name: &str) -> bool {
    between(name, "cubins/", ".cubin.zst").is_some_and(is_plain)
}

/// True if the entry is compressed with zstd.
pub fn is_compressed(name: &str) -> bool {
    name.strip_suffix(".zst").is_some()
}

/// True if a capture may hold the entry. Any other name could mean something to a program that sees the folder in
/// which a capture is unpacked, such as `.git/config`.
pub fn is_allowed(name: &str) -> bool {
    name.len() <= MAX_BYTES && (name == MANIFEST || is_table(name) || is_cubin(name))
}

/// Two of these entries that are one file where case does not count.
pub fn clash<'a>(names: impl Iterator<Item = &'a str>) -> Option<(&'a str, &'a str)> {
    let mut folded: Vec<(String, &str)> = names.map(|name| (name.to_ascii_lowercase(), name)).collect();
    folded.sort_unstable();
    folded.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0].1, pair[1].1))
}

fn between<'a>(name: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    name.strip_prefix(begin)?.strip_suffix(end)
}

/// One part of a path that is neither hidden nor special on any system.
fn is_plain(part: &str) -> bool {
    let begins = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    begins && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_and_cubins_are_entries() {
        assert!(is_allowed(MANIFEST) && is_allowed(&table("launch")) && is_allowed(&cubin("00ff")));
        let others = [
            "",
            "/etc/passwd",
            "../x",
            "tables/../x.parquet",
            "tables//x.parquet",
            "tables",
            "tables/",
            "tables/.parquet",
            "tables/.x.parquet",
            "tables/a/b.parquet",
            "tables/a b.parquet",
            "tables\\x.parquet",
            "tables/x\0.parquet",
            "Tables/x.parquet",
            "tables/x.parquet/y",
            "cubins/x",
            "cubins/.git/config.cubin.zst",
            ".git/config",
            "notes.txt",
            "C:\\x",
        ];
        for name in others {
            assert!(!is_allowed(name), "{name:?}");
        }
        assert!(!is_allowed(&table(&"x".repeat(MAX_BYTES))));
    }

    #[test]
    fn names_that_differ_by_case_clash() {
        assert_eq!(clash(["cubins/a", "tables/b", "cubins/A"].into_iter()), Some(("cubins/A", "cubins/a")));
        assert_eq!(clash(["cubins/a", "tables/a"].into_iter()), None);
    }
}
