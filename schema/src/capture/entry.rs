//! Names of a capture's entries, with the rule that refuses unsafe ones.

/// The manifest's entry.
pub const MANIFEST: &str = "manifest.json";

/// The entry of a table.
pub fn table(name: &str) -> String {
    format!("tables/{name}.parquet")
}

/// True if the entry is a table's.
pub fn is_table(name: &str) -> bool {
    name.strip_prefix("tables/").is_some_and(|name| name.strip_suffix(".parquet").is_some())
}

/// The entry of a cubin, named by the BLAKE3 hash of the cubin as loaded, in hexadecimal digits.
pub fn cubin(content_hash: &str) -> String {
    format!("cubins/{content_hash}.cubin.zst")
}

/// True if the entry is a cubin's.
pub fn is_cubin(name: &str) -> bool {
    name.strip_prefix("cubins/").is_some_and(|name| name.strip_suffix(".cubin.zst").is_some())
}

/// True if the entry is compressed with zstd.
pub fn is_compressed(name: &str) -> bool {
    name.strip_suffix(".zst").is_some()
}

/// True if the name stays inside the capture wherever it is unpacked: relative, with plain components only.
pub fn is_safe(name: &str) -> bool {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    name.len() <= 255
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
        && name.split('/').all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_capture_are_refused() {
        assert!(is_safe(MANIFEST) && is_safe(&table("launch")) && is_safe(&cubin("00ff")));
        for name in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "C:\\x", "a\\b", "a\0b", "tables/."] {
            assert!(!is_safe(name), "{name:?}");
        }
    }
}
