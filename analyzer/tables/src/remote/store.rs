//! The client for a URL: HTTP, or S3 with the settings of the environment.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use stallmap_schema::capture::error::CaptureError;

use super::error;
use crate::location::CaptureUrl;

/// Time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of one response with all of its bytes.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Retries of a failed request.
const RETRIES: usize = 3;
/// The default region.
const REGION: &str = "us-east-1";

/// Variables that name the source of S3's credentials. Without any, requests are not signed: public buckets.
const CREDENTIALS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
];

/// The client for a URL, and the object's path in it.
pub(super) fn for_url(
    url: &CaptureUrl,
    path: &Path,
) -> Result<(Arc<dyn ObjectStore>, object_store::path::Path), CaptureError> {
    match url {
        CaptureUrl::Http(url) => Ok((http(url, path)?, object_store::path::Path::default())),
        CaptureUrl::S3 { bucket, key } => s3(bucket, key, path),
    }
}

fn http(url: &str, path: &Path) -> Result<Arc<dyn ObjectStore>, CaptureError> {
    let is_plain = url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let builder = HttpBuilder::new().with_url(url).with_retry(retry()).with_client_options(options(is_plain));
    let store = builder.build().map_err(|cause| bad_url(&cause, path))?;
    Ok(Arc::new(store))
}

fn s3(
    bucket: &str,
    key: &str,
    path: &Path,
) -> Result<(Arc<dyn ObjectStore>, object_store::path::Path), CaptureError> {
    if key.is_empty() {
        return Err(error::refused("it names no object", "write s3://BUCKET/KEY", path));
    }
    let store = bucket_client(bucket, path)?;
    let object = object_store::path::Path::parse(key)
        .map_err(|cause| error::refused(cause.to_string(), "write s3://BUCKET/KEY", path))?;
    Ok((store, object))
}

/// The clients of buckets. A client reads the system's certificates and holds connections: one serves all objects.
static CLIENTS: LazyLock<Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>> = LazyLock::new(Mutex::default);

/// The client of a bucket, with the settings of the environment.
pub(super) fn bucket_client(bucket: &str, path: &Path) -> Result<Arc<dyn ObjectStore>, CaptureError> {
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = clients.get(bucket) {
        return Ok(Arc::clone(client));
    }
    let client = new_client(bucket, path)?;
    clients.insert(bucket.to_owned(), Arc::clone(&client));
    Ok(client)
}

fn new_client(bucket: &str, path: &Path) -> Result<Arc<dyn ObjectStore>, CaptureError> {
    if bucket.is_empty() {
        return Err(error::refused("it names no bucket", "write s3://BUCKET/KEY", path));
    }
    let endpoint = endpoint();
    let is_plain = endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    if is_plain && !endpoint.as_deref().is_some_and(is_local) && set("AWS_ALLOW_HTTP").is_none() {
        let cause = "AWS_ENDPOINT_URL is not encrypted, and its server is remote";
        return Err(error::refused(cause, "use https://, or set AWS_ALLOW_HTTP=true", path));
    }
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retry())
        .with_client_options(options(is_plain));
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if region().is_none() {
        builder = builder.with_region(REGION);
    }
    if CREDENTIALS.iter().all(|name| set(name).is_none()) {
        builder = builder.with_skip_signature(true);
    }
    let store = builder.build().map_err(|cause| bad_url(&cause, path))?;
    Ok(Arc::new(store))
}

/// A variable of the environment that is set and not empty.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn endpoint() -> Option<String> {
    set("AWS_ENDPOINT_URL").or_else(|| set("AWS_ENDPOINT"))
}

fn region() -> Option<String> {
    set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"))
}

/// The server of a URL as messages name it: without user, path and query.
pub(super) fn server(path: &Path) -> String {
    let path = path.to_string_lossy();
    let url = if path.starts_with("s3:") { endpoint() } else { Some(path.into_owned()) };
    let url = url.unwrap_or_else(|| format!("s3.{}.amazonaws.com", region().as_deref().unwrap_or(REGION)));
    let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit('@').next().unwrap_or_default().to_owned()
}

/// True if an endpoint is on this machine.
fn is_local(endpoint: &str) -> bool {
    let host = endpoint.trim_start_matches("http://").split('/').next().unwrap_or_default();
    // A user before the host would make the rest of the name another one.
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let is_loopback = |name: &str| name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    port.bytes().all(|byte| byte.is_ascii_digit())
        && (["localhost", "[::1]"].contains(&name) || is_loopback(name))
}

fn options(allow_http: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(allow_http)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_timeout(TIMEOUT)
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(2),
        base: 2.0,
    };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: TIMEOUT }
}

fn bad_url(cause: &object_store::Error, path: &Path) -> CaptureError {
    error::refused(format!("the URL cannot be used: {cause}"), "check the URL", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_without_users_and_queries() {
        let name = |url: &str| server(Path::new(url));
        assert_eq!(name("https://me:secret@example.org:8443/a.stallmap?token=x"), "example.org:8443");
        assert_eq!(name("http://[::1]:80"), "[::1]:80");
    }

    #[test]
    fn only_this_machine_is_local() {
        for local in
            ["http://localhost:9000", "http://127.0.0.1", "http://127.1.2.3:80/x", "http://[::1]:9000/"]
        {
            assert!(is_local(local), "{local}");
        }
        let others = [
            "http://127.0.0.1.evil.example",
            "http://localhost.evil.example:80",
            "http://localhost:80@evil.example",
            "http://[::1]evil.example",
            "http://10.0.0.1",
        ];
        for other in others {
            assert!(!is_local(other), "{other}");
        }
    }
}
