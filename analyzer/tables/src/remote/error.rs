//! Responses of servers as errors that name the URL and an action.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use object_store::Error as StoreError;
use stallmap_schema::capture::error::CaptureError;

use super::store;
use crate::location::CaptureUrl;

const NO_RANGES: &str = "download the file, with curl -LO for example, and open the copy";
const FORBIDDEN_HTTP: &str = "use a link without login, such as a freshly signed URL";
const FORBIDDEN_S3: &str = "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary ones, AWS_SESSION_TOKEN to credentials that may read it";
const NOT_FOUND: &str = "check the URL";
const NOT_REACHED: &str = "check the address and the network";
const NOT_REACHED_S3: &str = "check the network, and set AWS_ENDPOINT_URL for a server that is not Amazon's, AWS_REGION for another region";
const TRY_AGAIN: &str = "try again, or download the file and open the copy";
const CHANGED: &str = "run the command again, or read a copy that does not change";

/// Why an object could not be opened or read.
pub(super) fn failure(
    action: &'static str,
    error: &StoreError,
    url: &CaptureUrl,
    path: &Path,
) -> CaptureError {
    let is_s3 = matches!(url, CaptureUrl::S3 { .. });
    from_action(action, error, if is_s3 { FORBIDDEN_S3 } else { FORBIDDEN_HTTP }, path)
}

/// Why a part of an open object could not be read.
pub(super) fn reading(error: &StoreError, path: &Path) -> CaptureError {
    let forbidden = if path.starts_with("s3:") { FORBIDDEN_S3 } else { FORBIDDEN_HTTP };
    from_action("read capture", error, forbidden, path)
}

/// The object is another one than was opened.
pub(super) fn changed(path: &Path) -> CaptureError {
    let cause = "it changed while it was read".to_owned();
    CaptureError::Remote { action: "read capture", cause, hint: Some(CHANGED), path: path.to_owned() }
}

/// A range outside of the object.
pub(super) fn outside(range: &Range<u64>, size: u64, path: &Path) -> CaptureError {
    CaptureError::Truncated {
        cause: format!("bytes {} to {} of {size} are requested", range.start, range.end),
        path: path.to_owned(),
    }
}

/// Fewer bytes came than announced.
pub(super) fn cut_short(came: usize, expected_bytes: u64) -> Box<dyn Error + Send + Sync> {
    format!("the server sent {came} of {expected_bytes} bytes").into()
}

/// A URL that cannot be used.
pub(super) fn refused(cause: impl Into<String>, hint: &'static str, path: &Path) -> CaptureError {
    let cause = cause.into();
    CaptureError::Remote { action: "open capture", cause, hint: Some(hint), path: path.to_owned() }
}

/// True if a server answers a range from the end with a status that says so, or says nothing.
pub(super) fn refuses_ranges_from_the_end(error: &StoreError) -> bool {
    let statuses = ["400 ", "416 ", "501 "].map(|status| format!("non-2xx status code: {status}"));
    let chain = chain(error);
    chain.iter().any(|cause| {
        cause.contains("416 Range Not Satisfiable") || statuses.iter().any(|status| cause.contains(status))
    })
}

fn from_action(
    action: &'static str,
    error: &StoreError,
    forbidden: &'static str,
    path: &Path,
) -> CaptureError {
    let not_reached = if path.starts_with("s3:") { NOT_REACHED_S3 } else { NOT_REACHED };
    let (cause, hint) = match error {
        StoreError::NotFound { .. } => ("HTTP status 404 Not Found".to_owned(), NOT_FOUND),
        StoreError::PermissionDenied { .. } => ("HTTP status 403 Forbidden".to_owned(), forbidden),
        StoreError::Unauthenticated { .. } => ("HTTP status 401 Unauthorized".to_owned(), forbidden),
        other => generic(&chain(other), &store::server(path), not_reached),
    };
    CaptureError::Remote { action, cause, hint: Some(hint), path: path.to_owned() }
}

/// The category of causes by their text: the store gives no kinds for these.
fn generic(chain: &[String], server: &str, not_reached: &'static str) -> (String, &'static str) {
    let says = |words: &str| chain.iter().find(|cause| cause.contains(words));
    let without_ranges =
        ["Range request not supported", "non-partial response", "Content-Range header not present"];
    if without_ranges.iter().any(|words| says(words).is_some()) {
        return ("the server does not support range requests".to_owned(), NO_RANGES);
    }
    if says("416 Range Not Satisfiable").is_some() {
        return ("it is empty".to_owned(), NOT_FOUND);
    }
    if let Some(status) = says("non-2xx status code: ") {
        let status = status.split("status code: ").nth(1).unwrap_or(status);
        return (format!("HTTP status {}", status.split(':').next().unwrap_or(status)), TRY_AGAIN);
    }
    if says("end of file before message length").is_some() {
        return ("the server sent fewer bytes than it announced".to_owned(), TRY_AGAIN);
    }
    if let Some(cut) = says("the server sent ") {
        return (cut.clone(), TRY_AGAIN);
    }
    if says("timed out").is_some() {
        return ("the server did not answer in time".to_owned(), TRY_AGAIN);
    }
    let last = chain.last().cloned().unwrap_or_default();
    if says("failed to lookup address").is_some() || says("dns error").is_some() {
        return (format!("cannot find the server {server}: {last}"), not_reached);
    }
    if says("error trying to connect").is_some() || says("tcp connect error").is_some() {
        return (format!("cannot connect to {server}: {last}"), not_reached);
    }
    (last, TRY_AGAIN)
}

/// An error's causes, outermost first.
fn chain(error: &StoreError) -> Vec<String> {
    let mut causes = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes
}
