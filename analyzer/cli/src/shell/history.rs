//! Where the shell keeps what was typed.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The history file in the user's state folder, which is made if need be; none where there is no such place.
pub(super) fn path() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    let folder = state.join("stallmap");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
