//! The objects below a prefix of a bucket.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use object_store::{ObjectMeta, ObjectStore as _};
use stallmap_schema::capture::error::CaptureError;

use super::{ReadTraffic, add_closed, error, store, wait};
use crate::location::CaptureUrl;

/// Objects of one response of a server.
const OBJECTS_PER_RESPONSE: usize = 1000;

/// An object below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its key below the prefix.
    pub name: String,
    /// Its key in the bucket.
    pub key: String,
    /// Its bytes.
    pub size_bytes: u64,
    /// The server's name of this version of its content, else the time of its last change.
    pub version: String,
}

/// The objects below a prefix, by name. The server lists a thousand per call.
pub(crate) fn listed(bucket: &str, prefix: &str, path: &Path) -> Result<Vec<ListedObject>, CaptureError> {
    let url = CaptureUrl::S3 { bucket: bucket.to_owned(), key: prefix.to_owned() };
    let client = store::bucket_client(bucket, path)?;
    let folder = prefix.trim_end_matches('/');
    let root = if folder.is_empty() {
        None
    } else {
        let parsed = object_store::path::Path::parse(folder);
        Some(parsed.map_err(|cause| error::refused(cause.to_string(), "write s3://BUCKET/PREFIX", path))?)
    };
    let asked = root.clone();
    let found: Vec<ObjectMeta> =
        wait(async move { Arc::clone(&client).list(asked.as_ref()).try_collect().await })
            .map_err(|cause| error::failure("list captures", &cause, &url, path))?;
    let requests = found.len().div_ceil(OBJECTS_PER_RESPONSE).max(1) as u64;
    add_closed(&ReadTraffic { requests, ..ReadTraffic::default() });
    let below = |key: &str| {
        let rest = root.as_ref().map_or(Some(key), |root| key.strip_prefix(root.as_ref()));
        rest.map(|rest| rest.trim_start_matches('/').to_owned())
    };
    let mut objects: Vec<ListedObject> = found
        .into_iter()
        .filter_map(|meta| {
            let key = meta.location.to_string();
            let version = meta.e_tag.unwrap_or_else(|| meta.last_modified.to_rfc3339());
            Some(ListedObject { name: below(&key)?, key, size_bytes: meta.size, version })
        })
        .collect();
    objects.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(objects)
}
