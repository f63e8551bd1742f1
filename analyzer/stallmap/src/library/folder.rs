//! The files of a user's library: found below a folder, bounded for any links.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::fault::{LibraryFault, LibraryRule, TextFlaw};

/// Maximum of files.
pub(super) const MAX_FILES: usize = 1_000;
/// Maximum size of a file, bytes.
pub(super) const MAX_BYTES: u64 = 1 << 20;
/// Maximum of folder entries.
const MAX_ENTRIES: usize = 20_000;
/// Maximum depth of folders.
const MAX_DEPTH: usize = 8;

/// A file of SQL.
#[derive(Debug)]
pub(super) struct SqlFile {
    /// Its location.
    pub(super) path: PathBuf,
    /// The library's name and the folders below it, separated by `/`.
    pub(super) package: String,
    /// Its name without the ending.
    pub(super) name: String,
    /// Its content.
    pub(super) text: String,
}

/// A folder that is being read.
struct FolderReader {
    files: Vec<SqlFile>,
    faults: Vec<LibraryFault>,
    /// Real paths of folders, to detect cycles of links.
    seen: BTreeSet<PathBuf>,
    entries: usize,
}

/// Every `*.sql` below a folder, by path, and unreadable ones.
///
/// Names that begin with a dot are left out.
pub(super) fn read(root: &Path) -> io::Result<(Vec<SqlFile>, Vec<LibraryFault>)> {
    let real = root.canonicalize()?;
    let name = real.file_name().map_or_else(|| "library".into(), |name| name.to_string_lossy().into_owned());
    let mut reading =
        FolderReader { files: Vec::new(), faults: Vec::new(), seen: BTreeSet::new(), entries: 0 };
    // The root's own failure is the caller's. Those below are faults.
    fs::read_dir(root)?;
    reading.folder(root, &name, 0);
    Ok((reading.files, reading.faults))
}

impl FolderReader {
    fn fault(&mut self, path: &Path, message: impl Into<String>) {
        self.faults.push(TextFlaw::new(1, LibraryRule::File, message).within(path));
    }

    fn folder(&mut self, path: &Path, package: &str, depth: usize) {
        let Ok(real) = path.canonicalize() else {
            return self.fault(path, "the link is broken");
        };
        if !self.seen.insert(real) {
            return;
        }
        if depth > MAX_DEPTH {
            return self.fault(path, format!("more than {MAX_DEPTH} nested folders"));
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.fault(path, format!("the folder cannot be read: {error}")),
        };
        let room = MAX_ENTRIES.saturating_sub(self.entries);
        let mut names: Vec<_> =
            entries.take(room + 1).filter_map(Result::ok).map(|entry| entry.path()).collect();
        if names.len() > room {
            return self.fault(path, format!("the library has more than {MAX_ENTRIES} files and folders"));
        }
        self.entries += names.len();
        names.sort();
        for name in names {
            self.entry(&name, package, depth);
        }
    }

    fn entry(&mut self, path: &Path, package: &str, depth: usize) {
        let (Some(name), Some(stem)) = (path.file_name(), path.file_stem()) else { return };
        let (name, stem) = (name.to_string_lossy(), stem.to_string_lossy());
        if name.starts_with('.') {
            return;
        }
        if path.is_dir() {
            self.folder(path, &format!("{package}/{name}"), depth + 1);
        } else if path.extension().is_some_and(|extension| extension == "sql") {
            if self.files.len() == MAX_FILES {
                return self.fault(path, format!("the library has more than {MAX_FILES} files"));
            }
            match text(path) {
                Ok(text) => {
                    let (package, name) = (package.to_owned(), stem.into_owned());
                    self.files.push(SqlFile { path: path.to_owned(), package, name, text });
                }
                Err(reason) => self.fault(path, reason),
            }
        }
    }
}

fn text(path: &Path) -> Result<String, String> {
    let wrong = |error: io::Error| format!("the file cannot be read: {error}");
    // Reading a pipe would block.
    if !path.metadata().map_err(wrong)?.is_file() {
        return Err("not a file".to_owned());
    }
    let mut bytes = Vec::new();
    fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(wrong)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("the file has more than {MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}
