//! The embedded Python packages, which are unpacked into the recording's folder: the hooks, and the public `stallmap`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context as _;

/// Every file: its path in the folder, and its text.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/python_files.rs"));

/// Writes the packages below `folder`; gives the PYTHONPATH with which a program finds it.
pub(crate) fn unpack(folder: &Path) -> anyhow::Result<OsString> {
    let root = folder.join("python");
    for (name, text) in FILES {
        let path = root.join(name);
        let parent = path.parent().unwrap_or(&root);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text));
        written.with_context(|| format!("write `{}`", path.display()))?;
    }
    search_path(&root.join("hook"), env::var_os("PYTHONPATH").as_deref())
}

/// stallmap's hook first: Python imports it at its start, and it finds the package. Then the user's own value.
fn search_path(hook: &Path, inherited: Option<&std::ffi::OsStr>) -> anyhow::Result<OsString> {
    let mut paths: Vec<PathBuf> = vec![hook.to_owned()];
    // An empty variable means nothing to Python, but an empty entry means the working folder.
    paths.extend(inherited.filter(|value| !value.is_empty()).map(env::split_paths).into_iter().flatten());
    env::join_paths(paths).context("put the recorder's Python package on PYTHONPATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_path_stays_behind_ours() {
        let hook = Path::new("/r/hook");
        assert_eq!(search_path(hook, None).unwrap(), "/r/hook");
        assert_eq!(search_path(hook, Some("".as_ref())).unwrap(), "/r/hook");
        assert_eq!(search_path(hook, Some("/a:/b".as_ref())).unwrap(), "/r/hook:/a:/b");
        assert!(search_path(Path::new("/r:s"), None).is_err());
    }

    #[test]
    fn every_file_is_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let path = unpack(folder.path()).unwrap();
        assert!(path.to_str().unwrap().starts_with(folder.path().join("python/hook").to_str().unwrap()));
        assert!(FILES.iter().any(|(name, _)| *name == "hook/sitecustomize.py"));
        assert!(FILES.iter().any(|(name, _)| *name == "_stallmap_record/_imports.py"));
        assert!(FILES.iter().any(|(name, _)| *name == "stallmap/__init__.py"));
        for (name, text) in FILES {
            assert_eq!(&fs::read_to_string(folder.path().join("python").join(name)).unwrap(), text);
        }
    }
}
