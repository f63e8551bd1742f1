//! The captures that a process may read: those below one folder, or below one URL.

use std::fs;
use std::path::{Path, PathBuf};

use stallmap::location::CaptureLocation;

use crate::error::{ClusterError, ClusterResult};

/// A folder or URL. Nothing else is opened.
#[derive(Clone, Debug)]
pub(crate) enum AllowedPrefix {
    Folder(PathBuf),
    /// With a slash at its end.
    Url(String),
}

impl AllowedPrefix {
    /// The prefix of a command line.
    pub(crate) fn new(typed: &str) -> ClusterResult<Self> {
        if CaptureLocation::from(typed).is_remote() {
            return Ok(Self::Url(format!("{}/", typed.trim_end_matches('/'))));
        }
        let wrong = |error| ClusterError::message(format!("folder `{typed}` cannot be read: {error}"));
        fs::canonicalize(typed).map(Self::Folder).map_err(wrong)
    }

    /// An error for an address outside.
    pub(crate) fn check(&self, address: &str) -> ClusterResult<()> {
        let is_inside = match self {
            Self::Folder(folder) => {
                !CaptureLocation::from(address).is_remote() && is_below(Path::new(address), folder)
            }
            Self::Url(url) => is_below_url(address, url),
        };
        if is_inside {
            return Ok(());
        }
        let error = ClusterError::message(format!("`{address}` is not below the prefix of this process"));
        Err(error.hint("start it with --prefix and a folder or URL that holds all captures"))
    }
}

/// True for a path whose links all lead below a folder. A path that is not there is below no folder.
fn is_below(path: &Path, folder: &Path) -> bool {
    fs::canonicalize(path).is_ok_and(|path| path.starts_with(folder))
}

/// True for an address below a URL, without steps upwards, written out or escaped.
fn is_below_url(address: &str, url: &str) -> bool {
    let rest = format!("{address}/");
    let Some(rest) = rest.strip_prefix(url) else { return false };
    let path = rest.split(['?', '#']).next().unwrap_or(rest).to_ascii_lowercase().replace("%2e", ".");
    !path.contains("%2f") && !path.contains('\\') && path.split('/').all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_below_a_prefix_are_allowed() {
        let url = AllowedPrefix::new("s3://bucket/runs").unwrap();
        for (address, expected) in [
            ("s3://bucket/runs", true),
            ("s3://bucket/runs/a.stallmap", true),
            ("s3://bucket/runs2/a.stallmap", false),
            ("s3://bucket/runs/../a.stallmap", false),
            ("s3://bucket/runs/%2E%2e/a.stallmap", false),
            ("s3://bucket/runs/..%2fa.stallmap", false),
            ("/etc/passwd", false),
        ] {
            assert_eq!(url.check(address).is_ok(), expected, "{address}");
        }
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("runs/in")).unwrap();
        fs::write(path("runs/a.stallmap"), "x").unwrap();
        fs::write(path("secret"), "x").unwrap();
        std::os::unix::fs::symlink(path("secret"), path("runs/link.stallmap")).unwrap();
        let folder = AllowedPrefix::new(path("runs").to_str().unwrap()).unwrap();
        for (name, expected) in [
            ("runs", true),
            ("runs/in", true),
            ("runs/a.stallmap", true),
            ("runs/in/../a.stallmap", true),
            ("runs/link.stallmap", false),
            ("runs/../secret", false),
            ("runs/none.stallmap", false),
        ] {
            assert_eq!(folder.check(path(name).to_str().unwrap()).is_ok(), expected, "{name}");
        }
        assert!(folder.check("https://host/runs/a.stallmap").is_err());
    }
}
