//! Findings on disk, by the content of the section that they are of: shared by captures, and never needed.
//!
//! An unwritable folder, or a damaged or unrecognized file, costs time and nothing else. The folder can be deleted at
//! any time. A folder or a file of another user, or one that other users can write, is not read: they could write any
//! answer into it.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::unistd::geteuid;

use super::file;
use super::findings::SectionFindings;

/// Maximum size of a cache file.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Value of the variable that disables the cache.
const OFF: &str = "off";
/// Permissions of folders that the cache makes.
const PRIVATE: u32 = 0o700;
/// Permissions of its files.
const PRIVATE_FILE: u32 = 0o600;
/// Permissions of other users to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A folder for results that can be computed again: analyses of code, and rows of views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultCache {
    folder: Option<PathBuf>,
    is_replaced: bool,
}

impl ResultCache {
    /// No cache: everything is computed.
    pub const NONE: Self = Self { folder: None, is_replaced: false };

    /// A cache in a folder, created on the first write.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), is_replaced: false }
    }

    /// The cache from the environment: `STALLMAP_CACHE`, a folder, or `off`. Otherwise the user's cache folder.
    pub fn of_environment(variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        // A relative path would depend on the working directory.
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let folder = match variable("STALLMAP_CACHE").filter(|path| !path.as_os_str().is_empty()) {
            Some(path) if path == Path::new(OFF) => None,
            Some(path) => Some(path),
            None => absolute("XDG_CACHE_HOME")
                .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
                .map(|caches| caches.join("stallmap")),
        };
        Self { folder, is_replaced: false }
    }

    /// The same cache, which computes everything again and replaces its content.
    #[must_use]
    pub fn replaced(self) -> Self {
        Self { is_replaced: true, ..self }
    }

    /// The folder. `None` if caching is disabled.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The folder, unless it is not used.
    pub fn trusted(&self) -> Option<&Path> {
        self.folder().filter(|_| self.distrust().is_none())
    }

    /// Why the folder is not used, although it is there.
    pub fn distrust(&self) -> Option<&'static str> {
        distrust(&fs::metadata(self.folder()?).ok().filter(Metadata::is_dir)?)
    }

    /// The cached analysis of a section.
    pub(super) fn get(&self, key: &blake3::Hash) -> Option<SectionFindings> {
        file::decode(key, &self.read(&self.path(key)?, MAX_FILE_BYTES)?)
    }

    /// Caches the analysis of a section, atomically.
    pub(super) fn put(&self, key: &blake3::Hash, findings: &SectionFindings) -> io::Result<()> {
        let Some(path) = self.path(key) else { return Ok(()) };
        Self::write(&path, &[&file::encode(key, findings)])
    }

    /// The first `most_bytes` of a file in the cache. None if there is none, or if it is to be replaced.
    pub fn read(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
        // To open a pipe waits for its writer.
        let metadata = path.metadata().ok().filter(|metadata| metadata.is_file() && !self.is_replaced)?;
        if distrust(&metadata).is_some() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(most_bytes).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes a file of the cache from its parts, atomically. Its folder is created.
    pub fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let folder = path.parent().unwrap_or(path);
        DirBuilder::new().recursive(true).mode(PRIVATE).create(folder)?;
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let unfinished = folder.join(format!(".{}.{number}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(&unfinished)
            .and_then(|mut file| parts.iter().try_for_each(|part| file.write_all(part)))
            .and_then(|()| fs::rename(&unfinished, path));
        if written.is_err() {
            // The file may not exist. Only the first error matters.
            drop(fs::remove_file(&unfinished));
        }
        written
    }

    fn path(&self, key: &blake3::Hash) -> Option<PathBuf> {
        let name = key.to_hex();
        let (first, rest) = name.split_at(2);
        self.trusted().map(|folder| folder.join("code").join(first).join(rest))
    }
}

/// Why a file or folder may hold what other users wrote.
fn distrust(metadata: &Metadata) -> Option<&'static str> {
    if metadata.uid() != geteuid().as_raw() {
        return Some("it belongs to another user");
    }
    (metadata.mode() & WRITABLE_BY_OTHERS != 0).then_some("other users can write it")
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn cache_of(variables: &[(&str, &str)]) -> ResultCache {
        ResultCache::of_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_environment_says_where() {
        assert_eq!(cache_of(&[("HOME", "/h")]), ResultCache::at("/h/.cache/stallmap"));
        assert_eq!(cache_of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), ResultCache::at("/c/stallmap"));
        assert_eq!(
            cache_of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "c")]),
            ResultCache::at("/h/.cache/stallmap")
        );
        assert_eq!(cache_of(&[("HOME", "/h"), ("STALLMAP_CACHE", "/s")]), ResultCache::at("/s"));
        assert_eq!(
            cache_of(&[("HOME", "/h"), ("STALLMAP_CACHE", "")]),
            ResultCache::at("/h/.cache/stallmap")
        );
        assert_eq!(cache_of(&[("HOME", "/h"), ("STALLMAP_CACHE", "off")]), ResultCache::NONE);
        assert_eq!(cache_of(&[]), ResultCache::NONE);
    }

    #[test]
    fn what_is_kept_is_found_and_damage_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ResultCache::at(folder.path().join("new"));
        let (key, findings) =
            (blake3::hash(b"a"), SectionFindings { unknown: vec![1], ..SectionFindings::default() });
        assert_eq!(cache.get(&key), None);
        cache.put(&key, &findings).unwrap();
        cache.put(&key, &findings).unwrap();
        assert_eq!(cache.get(&key), Some(findings));
        let path = cache.path(&key).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file remains");
        fs::write(&path, "foreign").unwrap();
        assert_eq!(cache.get(&key), None);
        assert_eq!(cache.get(&blake3::hash(b"b")), None);
    }

    #[test]
    fn what_others_can_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ResultCache::at(folder.path().join("new"));
        let (key, findings) =
            (blake3::hash(b"a"), SectionFindings { unknown: vec![1], ..SectionFindings::default() });
        cache.put(&key, &findings).unwrap();
        let (root, file) = (cache.folder().unwrap().to_owned(), cache.path(&key).unwrap());
        assert_eq!(fs::metadata(&root).unwrap().mode() & 0o777, PRIVATE);
        for path in [root, file] {
            let before = fs::metadata(&path).unwrap().permissions();
            for mode in [0o720, 0o702] {
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
                assert_eq!(cache.get(&key), None, "{mode:o}");
            }
            fs::set_permissions(&path, before).unwrap();
            assert_eq!(cache.get(&key), Some(findings.clone()));
        }
        assert_eq!(cache.distrust(), None);
        // The system's folders are of its administrator, unless a test runs as that.
        let system = fs::metadata("/proc/1/").unwrap();
        let expected = (!geteuid().is_root()).then_some("it belongs to another user");
        assert_eq!(distrust(&system), expected);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_of_keeping_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let cache = ResultCache::at(&file);
        assert_eq!(cache.get(&blake3::hash(b"a")), None);
        assert!(cache.put(&blake3::hash(b"a"), &SectionFindings::default()).is_err());
    }
}
