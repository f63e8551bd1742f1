//! Files and folders that exist only while this process writes: what a signal must remove before it ends the process.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Says that a path exists until [`end`].
pub fn begin(path: &Path) {
    paths().insert(absolute(path));
}

/// Says that a path was removed or put into place.
pub fn end(path: &Path) {
    paths().remove(&absolute(path));
}

/// True between [`begin`] and [`end`].
pub fn is_listed(path: &Path) -> bool {
    paths().contains(&absolute(path))
}

/// Removes everything unfinished. While the guard lives no path is begun or ended: then the process should end.
pub fn remove_all() -> impl Sized {
    let paths = paths();
    paths.iter().for_each(|path| remove(path));
    paths
}

/// A thread that still writes into a folder can stop its removal: again, a few times.
fn remove(path: &Path) {
    let removed = |_| fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)).is_ok();
    let _is_gone = (0..8).any(removed);
}

fn paths() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_and_folders_go() {
        let root = tempfile::tempdir().unwrap();
        let [folder, file, other] = ["folder", "file", "other"].map(|name| root.path().join(name));
        fs::create_dir_all(folder.join("tables")).unwrap();
        for path in [&folder.join("tables/x"), &file, &other] {
            fs::write(path, "").unwrap();
        }
        for path in [&folder, &file, &other] {
            begin(path);
        }
        end(&other);
        paths().iter().filter(|path| path.starts_with(root.path())).for_each(|path| remove(path));
        assert!(!folder.exists() && !file.exists() && other.exists());
    }
}
