//! The manifest: the content of a capture, and the release that can read it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::entry;
use super::error::CaptureError;
use super::labels::{CaptureLabels, check_labels};
use super::stored::StoredAnswer;
use crate::hash;
use crate::table::TableRow as _;

/// The format's major version that this release writes, and the only one that it reads.
pub const MAJOR: u32 = 2;
/// The format's minor version that this release writes. A minor version only adds tables and columns. A reader of an
/// earlier one ignores them. 2.1 can hold stored answers: see [`super::stored`].
pub const MINOR: u32 = 1;
/// Most bytes that a manifest may have.
pub const MAX_BYTES: u64 = 16 << 20;

/// The list of a capture's tables and files, with their hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format's version.
    pub format: FormatVersion,
    /// The release that wrote the capture.
    pub writer: String,
    /// The rules of the hashes in the tables: [`crate::hash::ALGORITHM`].
    pub hash_algorithm: String,
    /// Time at which the capture was finalized, nanoseconds since the Unix epoch.
    pub created_ns: i64,
    /// BLAKE3 over the sorted (path, BLAKE3) of all tables and files: equal content, equal capture.
    pub capture_id: String,
    /// The tables, in reading order.
    pub tables: Vec<TableEntry>,
    /// All other files.
    pub files: Vec<FileEntry>,
    /// Changes to the capture after it was recorded, such as what was redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Labels that users gave the capture. No id depends on them.
    #[serde(default, skip_serializing_if = "CaptureLabels::is_empty")]
    pub labels: CaptureLabels,
}

/// Version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatVersion {
    /// A reader of an older major version cannot read the capture.
    pub major: u32,
    /// Additions that an older reader does not see.
    pub minor: u32,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Its name. Its entry is `tables/<name>.parquet`.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// BLAKE3 of its file, in hexadecimal digits.
    pub blake3: String,
}

/// One file that is not a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its entry.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its BLAKE3, in hexadecimal digits.
    pub blake3: String,
}

impl Manifest {
    /// The manifest of a capture that this release writes.
    pub fn new(created_ns: i64, tables: Vec<TableEntry>, files: Vec<FileEntry>) -> Self {
        let mut manifest = Self {
            format: FormatVersion { major: MAJOR, minor: MINOR },
            writer: env!("CARGO_PKG_VERSION").to_owned(),
            hash_algorithm: hash::ALGORITHM.to_owned(),
            created_ns,
            capture_id: String::new(),
            tables,
            files,
            notes: Vec::new(),
            labels: CaptureLabels::new(),
        };
        manifest.capture_id = manifest.compute_capture_id();
        manifest
    }

    /// Reads a manifest; `path` is the capture, for errors.
    pub fn parse(json: &[u8], path: &Path) -> Result<Self, CaptureError> {
        if json.len() as u64 > MAX_BYTES {
            return Err(CaptureError::corrupt(
                "manifest",
                format!("it has more than {MAX_BYTES} bytes"),
                path,
            ));
        }
        let not_one = |cause: serde_json::Error| CaptureError::NotACapture {
            cause: format!("its manifest cannot be read: {cause}"),
            path: path.to_owned(),
        };
        // The version comes first: the rest of a newer manifest may have any shape.
        let version: ManifestHead = serde_json::from_slice(json).map_err(not_one)?;
        let found = format!("{}.{}", version.format.major, version.format.minor);
        if version.format.major < MAJOR {
            return Err(CaptureError::OlderFormat { found, supported: MAJOR, path: path.to_owned() });
        }
        if version.format.major > MAJOR {
            return Err(CaptureError::NewerFormat {
                found,
                supported: MAJOR,
                writer: version.writer.unwrap_or_else(|| "of an unknown version".to_owned()),
                path: path.to_owned(),
            });
        }
        let manifest: Self = serde_json::from_slice(json).map_err(not_one)?;
        manifest.check_names(path)?;
        check_labels(&manifest.labels).map_err(|cause| CaptureError::corrupt("manifest", cause, path))?;
        Ok(manifest)
    }

    /// The manifest as JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(self)
    }

    /// Every entry but the manifest: (path, bytes, BLAKE3), tables first.
    pub fn entries(&self) -> impl Iterator<Item = (String, u64, &str)> {
        let tables = self.tables.iter().map(|table| (entry::table(&table.name), table.bytes, &*table.blake3));
        tables.chain(self.files.iter().map(|file| (file.path.clone(), file.bytes, &*file.blake3)))
    }

    /// The value that [`Manifest::capture_id`] must have.
    pub fn compute_capture_id(&self) -> String {
        Self::id_of(self.entries())
    }

    /// The same of everything that was recorded, without stored answers.
    pub fn recorded_id(&self) -> String {
        let answers = entry::table(StoredAnswer::TABLE.name);
        Self::id_of(self.entries().filter(|(path, _, _)| *path != answers))
    }

    fn id_of<'a>(entries: impl Iterator<Item = (String, u64, &'a str)>) -> String {
        let mut entries: Vec<_> = entries.map(|(path, _, blake3)| (path, blake3)).collect();
        entries.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        for (path, blake3) in entries {
            hasher.update(format!("{path}\n{blake3}\n").as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    fn check_names(&self, path: &Path) -> Result<(), CaptureError> {
        let names: Vec<_> = self.entries().map(|(name, _, _)| name).collect();
        let wrong = |cause: String| Err(CaptureError::corrupt("manifest", cause, path));
        if let Some(name) = names.iter().find(|name| !entry::is_allowed(name) || *name == entry::MANIFEST) {
            return wrong(format!("it lists the entry {name:?}, but a capture holds tables and cubins only"));
        }
        match entry::clash(names.iter().map(String::as_str)) {
            Some((one, other)) if one == other => wrong(format!("it lists `{one}` twice")),
            Some((one, other)) => wrong(format!("its entries `{one}` and `{other}` differ only by case")),
            None => Ok(()),
        }
    }
}

/// The part of a manifest that every major version keeps.
#[derive(Deserialize)]
struct ManifestHead {
    format: FormatVersion,
    writer: Option<String>,
}
