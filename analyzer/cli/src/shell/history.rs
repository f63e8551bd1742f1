//! History file of the shell.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The history file in the user's state folder, created if necessary. None without such a folder.
pub(super) fn path() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    let folder = state.join("stallmap");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
