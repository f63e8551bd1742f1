//! Location of a capture: a path, or a URL that is read by ranges. The only parser of typed locations.

use std::ffi::OsString;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::source::RangeSource;

use crate::remote::{self, ListedObject, RemoteObject};

/// Location of a capture. As a path it is the form for messages, which omits secrets of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureLocation {
    shown: PathBuf,
    url: Option<CaptureUrl>,
}

/// A capture on a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum CaptureUrl {
    /// `https://` or `http://`, as typed.
    Http(String),
    /// `s3://BUCKET/KEY`.
    S3 { bucket: String, key: String },
}

impl CaptureLocation {
    /// Opens the capture.
    pub fn open(&self) -> Result<CaptureReader, CaptureError> {
        match &self.url {
            None => CaptureReader::open(&self.shown),
            Some(url) => {
                let source: Arc<dyn RangeSource> = RemoteObject::open(url, &self.shown)?;
                CaptureReader::open_remote(&source)
            }
        }
    }

    /// The location as typed, with the secrets of a URL: for another process that opens the same capture.
    pub fn address(&self) -> String {
        match &self.url {
            Some(CaptureUrl::Http(url)) => url.clone(),
            _ => self.shown.display().to_string(),
        }
    }

    /// True for a remote capture.
    pub fn is_remote(&self) -> bool {
        self.url.is_some()
    }

    /// The objects below this prefix of a bucket, each with its location. None for any other location: no other one is
    /// listed.
    pub fn listed(&self) -> Option<Result<Vec<(Self, ListedObject)>, CaptureError>> {
        let Some(CaptureUrl::S3 { bucket, key }) = &self.url else { return None };
        let below = |object: ListedObject| {
            let url = CaptureUrl::S3 { bucket: bucket.clone(), key: object.key.clone() };
            (Self { shown: url.shown().into(), url: Some(url) }, object)
        };
        let objects = remote::listed(bucket, key, &self.shown);
        Some(objects.map(|objects| objects.into_iter().map(below).collect()))
    }
}

impl From<PathBuf> for CaptureLocation {
    fn from(typed: PathBuf) -> Self {
        match typed.to_str().and_then(CaptureUrl::parse) {
            Some(url) => Self { shown: url.shown().into(), url: Some(url) },
            None => Self { shown: typed, url: None },
        }
    }
}

impl From<&Path> for CaptureLocation {
    fn from(typed: &Path) -> Self {
        typed.to_owned().into()
    }
}

impl From<OsString> for CaptureLocation {
    fn from(typed: OsString) -> Self {
        PathBuf::from(typed).into()
    }
}

impl From<&str> for CaptureLocation {
    fn from(typed: &str) -> Self {
        PathBuf::from(typed).into()
    }
}

impl Deref for CaptureLocation {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.shown
    }
}

impl AsRef<Path> for CaptureLocation {
    fn as_ref(&self) -> &Path {
        &self.shown
    }
}

impl CaptureUrl {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Some(Self::Http(text.to_owned())),
            "s3" => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                Some(Self::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
            }
            _ => None,
        }
    }

    /// The URL without user, password and query, which may hold a signature.
    fn shown(&self) -> String {
        match self {
            Self::Http(url) => {
                let url = url.split(['?', '#']).next().unwrap_or(url);
                let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                let host = host.rsplit('@').next().unwrap_or(host);
                format!("{scheme}://{host}/{path}")
            }
            Self::S3 { bucket, key } => format!("s3://{bucket}/{key}"),
        }
    }
}

impl fmt::Debug for CaptureUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths_and_shown_without_secrets() {
        let shown = |typed: &str| {
            let location = CaptureLocation::from(typed);
            (location.is_remote(), location.display().to_string())
        };
        assert_eq!(shown("runs/a.stallmap"), (false, "runs/a.stallmap".to_owned()));
        assert_eq!(shown("odd://a.stallmap"), (false, "odd://a.stallmap".to_owned()));
        let url = "https://me:word@host:8443/x/a.stallmap?X-Amz-Signature=1f#x";
        assert_eq!(shown(url), (true, "https://host:8443/x/a.stallmap".to_owned()));
        assert_eq!(shown("S3://b/k/a.stallmap"), (true, "s3://b/k/a.stallmap".to_owned()));
        assert!(!format!("{:?}", CaptureLocation::from(url)).contains("word"));
    }
}
