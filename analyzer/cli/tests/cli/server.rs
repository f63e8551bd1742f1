//! A web server for one file, with configurable faults, that counts its responses.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerBehaviour {
    /// Ranges, as requested.
    Ranges,
    /// Ranges, but none that count from the end: status 400.
    NoSuffixes,
    /// Always the complete file.
    NoRanges,
    /// Half of the announced bytes.
    CutsShort,
    /// Always this status.
    Status(u16),
    /// Another version from the second request on.
    Changes,
    /// An error at every first try of a request.
    Stumbles,
}

/// A running server. It ends with the test's process.
pub(crate) struct ObjectServer {
    port: u16,
    log: Arc<ServerLog>,
}

/// Requests and responses of the server.
#[derive(Default)]
struct ServerLog {
    requests: AtomicUsize,
    sent_bytes: AtomicUsize,
    heads: Mutex<Vec<String>>,
}

impl ObjectServer {
    /// Serves a file under every path that ends with `a.stallmap`.
    pub(crate) fn start(file: Vec<u8>, manner: ServerBehaviour) -> Self {
        Self::start_with(BTreeMap::from([(String::new(), file)]), manner)
    }

    /// Serves the objects of `bucket` by their keys in small letters, and lists them as S3 does.
    pub(crate) fn start_bucket(objects: BTreeMap<String, Vec<u8>>) -> Self {
        Self::start_with(objects, ServerBehaviour::Ranges)
    }

    fn start_with(files: BTreeMap<String, Vec<u8>>, manner: ServerBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(ServerLog::default());
        let (files, seen) = (Arc::new(files), Arc::clone(&log));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (files, seen) = (Arc::clone(&files), Arc::clone(&seen));
                thread::spawn(move || while answer(&stream, &files, manner, &seen).is_some() {});
            }
        });
        Self { port, log }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.root())
    }

    pub(crate) fn root(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn requests(&self) -> usize {
        self.log.requests.load(Ordering::SeqCst)
    }

    /// Bytes of the file that were sent.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.log.sent_bytes.load(Ordering::SeqCst)
    }

    /// The requests' lines and headers, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.log.heads.lock().unwrap().clone()
    }
}

/// Answers one request. `None` ends the connection.
fn answer(
    mut stream: &TcpStream,
    files: &BTreeMap<String, Vec<u8>>,
    manner: ServerBehaviour,
    log: &ServerLog,
) -> Option<()> {
    let head = head(stream)?;
    let count = log.requests.fetch_add(1, Ordering::SeqCst);
    log.heads.lock().unwrap().push(head.clone());
    let address = head.split(' ').nth(1)?;
    if address.contains("list-type=2") {
        let body = listing(address, files);
        return write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok();
    }
    let target = address.split('?').next()?.to_owned();
    // A single file has every name.
    let file = match files.get("") {
        Some(file) => Some(file).filter(|_| target.ends_with("a.stallmap")),
        None => target.strip_prefix("/bucket/").and_then(|key| files.get(key)),
    };
    let status = match manner {
        _ if file.is_none() => Some(404),
        ServerBehaviour::Status(status) => Some(status),
        ServerBehaviour::NoSuffixes if head.contains("range: bytes=-") => Some(400),
        ServerBehaviour::Stumbles if count.is_multiple_of(2) => Some(503),
        _ => None,
    };
    if let Some(status) = status {
        return write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n").ok();
    }
    let file = file?.as_slice();
    let asked = range(&head, file.len()).filter(|_| manner != ServerBehaviour::NoRanges);
    let tag = if manner == ServerBehaviour::Changes { count.min(1) } else { 0 };
    let (line, body) = match &asked {
        Some(range) => {
            let place = format!("bytes {}-{}/{}", range.start, range.end - 1, file.len());
            (format!("206 Partial Content\r\nContent-Range: {place}"), &file[range.clone()])
        }
        None => ("200 OK".to_owned(), file),
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {line}\r\nContent-Length: {length}\r\nETag: \"v{tag}\"\r\n\r\n").ok()?;
    if head.starts_with("head ") {
        return Some(());
    }
    let is_cut = manner == ServerBehaviour::CutsShort;
    let body = if is_cut { &body[..body.len() / 2] } else { body };
    log.sent_bytes.fetch_add(body.len(), Ordering::SeqCst);
    stream.write_all(body).ok()?;
    (!is_cut).then_some(())
}

/// The objects below a prefix, as S3 lists them.
fn listing(address: &str, files: &BTreeMap<String, Vec<u8>>) -> String {
    let prefix = address.split(['?', '&']).find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = prefix.replace("%2f", "/");
    let object = |(key, file): (&String, &Vec<u8>)| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-28T12:00:00.000Z</LastModified>\
             <ETag>&quot;v{}&quot;</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
            file.len(),
            file.len()
        )
    };
    let objects: String = files.iter().filter(|(key, _)| key.starts_with(&prefix)).map(object).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>bucket</Name><Prefix>{prefix}</Prefix>\
         <KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>"
    )
}

/// A request's line and headers.
fn head(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut head = String::new();
    loop {
        let before = head.len();
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        if head[before..].trim().is_empty() {
            return Some(head.to_ascii_lowercase());
        }
    }
}

/// The byte range that the head of an HTTP request names.
fn range(head: &str, size: usize) -> Option<Range<usize>> {
    let line = head.lines().find_map(|line| line.strip_prefix("range: bytes="))?;
    let (start, end) = line.trim().split_once('-')?;
    match (start.parse::<usize>(), end.parse::<usize>()) {
        (Err(_), Ok(last)) => Some(size.saturating_sub(last)..size),
        (Ok(start), Ok(end)) => Some(start..(end + 1).min(size)),
        (Ok(start), Err(_)) => Some(start..size),
        _ => None,
    }
}
