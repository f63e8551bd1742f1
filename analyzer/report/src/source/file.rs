//! The text of source files, if present on this machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Extensions of source files. Captures name files, and an untrusted capture must not show other files.
const ENDINGS: &[&str] =
    &["c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hpp", "hxx", "inl", "ipp", "ptx", "py"];
/// Maximum size of a source file.
const MOST_BYTES: u64 = 8 << 20;

/// The lines of source files by the compiler's name.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<String, Vec<String>>);

impl Files {
    /// Reads those files that are here or below a folder.
    pub(super) fn read<'a>(names: impl IntoIterator<Item = &'a str>, root: Option<&Path>) -> Self {
        let mut files = BTreeMap::new();
        for name in names {
            if !files.contains_key(name)
                && let Some(lines) = candidates(name, root).iter().find_map(|path| read(path))
            {
                files.insert(name.to_owned(), lines);
            }
        }
        Self(files)
    }

    /// A line's text.
    pub(super) fn line(&self, file: &str, line: u32) -> Option<&str> {
        self.lines(file)?.get(usize::try_from(line).ok()?.checked_sub(1)?).map(String::as_str)
    }

    /// The lines of a file.
    pub(super) fn lines(&self, file: &str) -> Option<&[String]> {
        self.0.get(file).map(Vec::as_slice)
    }
}

/// Possible locations of a file: below the folder by as much of its path as fits there, then at its own path.
fn candidates(name: &str, root: Option<&Path>) -> Vec<PathBuf> {
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

fn read(path: &Path) -> Option<Vec<String>> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let metadata = path.metadata().ok()?;
    if !ENDINGS.contains(&ending.as_str()) || !metadata.is_file() || metadata.len() > MOST_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_below_the_folder_by_the_end_of_their_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kernels")).unwrap();
        std::fs::write(folder.path().join("kernels/a.cu"), "one\ntwo\n").unwrap();
        let name = "/home/other/project/kernels/a.cu";
        let files = Files::read([name], Some(folder.path()));
        assert_eq!(files.line(name, 2), Some("two"));
        assert_eq!((files.line(name, 0), files.line(name, 3)), (None, None));
    }

    #[test]
    fn what_is_no_source_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("id_rsa"), "secret").unwrap();
        std::fs::write(folder.path().join("a.txt"), "secret").unwrap();
        let files = Files::read(["id_rsa", "a.txt", "../a.txt", "/etc/hostname"], Some(folder.path()));
        assert!(files.0.is_empty());
    }
}
