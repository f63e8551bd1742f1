//! Source files on this machine.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Extensions of source files. Captures name files, and no other file is read because of a name.
const ENDINGS: [&str; 14] =
    ["c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hpp", "hxx", "inl", "ipp", "ptx", "py"];
/// Maximum size of a source file.
const MAX_BYTES: u64 = 8 << 20;
/// Maximum size of a line's text. The rest is cut.
pub const MAX_TEXT_BYTES: usize = 1000;

/// Possible locations of a file: below the folder by as much of its path as fits there, then at its own path.
pub fn candidates(name: &str, root: Option<&Path>) -> Vec<PathBuf> {
    let path = Path::new(name);
    let parts: Vec<Component> =
        path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let mut candidates = Vec::new();
    if let Some(root) = root {
        let below = (0..parts.len()).filter_map(|skip| parts.get(skip..));
        candidates.extend(below.map(|parts| root.join(parts.iter().collect::<PathBuf>())));
    }
    candidates.push(path.to_owned());
    candidates
}

/// The lines of a source file. None for other files, for large ones, and where it cannot be read.
pub fn read(path: &Path) -> Option<Vec<String>> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let metadata = path.metadata().ok()?;
    if !ENDINGS.contains(&ending.as_str()) || !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_source_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        assert_eq!(read(&write("a.PY", b"one\n\xff\n")).unwrap(), ["one", "\u{fffd}"]);
        assert_eq!(read(&write("secrets.txt", b"one\n")), None);
        assert_eq!(read(&write("py", b"one\n")), None);
        assert_eq!(read(folder.path()), None);
    }

    #[test]
    fn files_are_looked_for_below_the_folder_first() {
        let found = candidates("/a/b.py", Some(Path::new("/root")));
        assert_eq!(found, ["/root/a/b.py", "/root/b.py", "/a/b.py"].map(PathBuf::from));
        assert_eq!(candidates("b.py", None), [PathBuf::from("b.py")]);
    }
}
