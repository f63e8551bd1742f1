//! Captures on servers: read by ranges through object_store, block by block, on threads of their own.
//!
//! One object is opened once per process: all readers share its blocks, and its first version. A server that later
//! returns another version, other sizes or fewer bytes than announced causes an error.

mod blocks;
mod error;
mod list;
mod store;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, mpsc};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::source::RangeSource;
use tokio::runtime::Runtime;

use crate::location::CaptureUrl;
use blocks::{BLOCK_BYTES, ObjectBlocks};
pub use list::ListedObject;
pub(crate) use list::listed;

/// Bytes at the end of an object that are read on opening: a capture's directory is there.
const TAIL_BYTES: u64 = 96 << 10;
/// Maximum of concurrent requests.
const REQUESTS_AT_ONCE: usize = 8;
/// Open objects above which those that nothing reads are closed. Each holds its last bytes, and what was read.
const MAX_OPEN: usize = 256;

/// Traffic of reading an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadTraffic {
    /// Location of the object.
    pub path: PathBuf,
    /// Bytes of the object.
    pub size_bytes: u64,
    /// Bytes that were fetched.
    pub fetched_bytes: u64,
    /// Number of requests, without retries.
    pub requests: u64,
}

/// An object on a server, opened.
#[derive(Debug)]
pub(crate) struct RemoteObject {
    path: PathBuf,
    store: Arc<dyn ObjectStore>,
    object: object_store::path::Path,
    version: ObjectVersion,
    blocks: Mutex<ObjectBlocks>,
    fetched_bytes: AtomicU64,
    requests: AtomicU64,
}

/// Identity of a version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObjectVersion {
    size: u64,
    tag: Option<String>,
    modified_ns: Option<i64>,
}

/// The open objects, by location.
static OPEN: LazyLock<Mutex<BTreeMap<String, Arc<RemoteObject>>>> = LazyLock::new(Mutex::default);

/// Traffic of objects that were closed, and of lists: their number, and all of it together.
static CLOSED: LazyLock<Mutex<(usize, ReadTraffic)>> = LazyLock::new(Mutex::default);

/// Traffic of each open object so far.
pub fn traffic() -> Vec<ReadTraffic> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.values().map(|remote| remote.traffic()).collect()
}

/// Traffic of closed objects and of lists, without a location: their number, and the sum.
pub fn closed_traffic() -> (usize, ReadTraffic) {
    CLOSED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Counts the traffic of what is not open.
fn add_closed(traffic: &ReadTraffic) {
    let mut closed = CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    closed.0 += 1;
    closed.1.size_bytes += traffic.size_bytes;
    closed.1.fetched_bytes += traffic.fetched_bytes;
    closed.1.requests += traffic.requests;
}

/// Closes objects that nothing reads, if many are open. A fleet of captures would hold the ends of all of them.
fn close_idle(open: &mut BTreeMap<String, Arc<RemoteObject>>) {
    if open.len() < MAX_OPEN {
        return;
    }
    open.retain(|_, remote| {
        let is_read = Arc::strong_count(remote) > 1;
        if !is_read {
            add_closed(&remote.traffic());
        }
        is_read
    });
}

impl RemoteObject {
    /// Opens an object, or returns the open one. One request: its last bytes, with its size and version.
    pub(crate) fn open(url: &CaptureUrl, path: &Path) -> Result<Arc<Self>, CaptureError> {
        let key = match url {
            CaptureUrl::Http(url) => url.clone(),
            CaptureUrl::S3 { .. } => path.display().to_string(),
        };
        if let Some(open) = OPEN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(open));
        }
        let (store, object) = store::for_url(url, path)?;
        let (meta, range, tail) = {
            let (store, object) = (Arc::clone(&store), object.clone());
            wait(async move { tail(store.as_ref(), &object).await })
                .map_err(|cause| error::failure("open capture", &cause, url, path))?
        };
        let version = ObjectVersion::from_meta(&meta);
        let mut blocks = ObjectBlocks::new(version.size);
        blocks.insert(range.start, &tail);
        let remote = Arc::new(Self {
            path: path.to_owned(),
            store,
            object,
            version,
            blocks: Mutex::new(blocks),
            fetched_bytes: AtomicU64::new(tail.len() as u64),
            requests: AtomicU64::new(1),
        });
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        close_idle(&mut open);
        open.insert(key, Arc::clone(&remote));
        Ok(remote)
    }

    fn traffic(&self) -> ReadTraffic {
        ReadTraffic {
            path: self.path.clone(),
            size_bytes: self.version.size,
            fetched_bytes: self.fetched_bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }

    /// Fetches runs of blocks, several at a time.
    fn fetch(&self, runs: Vec<Range<u64>>) -> Result<Vec<(u64, Bytes)>, CaptureError> {
        self.requests.fetch_add(runs.len() as u64, Ordering::Relaxed);
        let (store, object) = (Arc::clone(&self.store), self.object.clone());
        let fetched = wait(async move {
            let one = |run: Range<u64>| {
                let (store, object) = (Arc::clone(&store), object.clone());
                let options = GetOptions { range: Some(run.into()), ..GetOptions::default() };
                async move { read_all(store.get_opts(&object, options).await?).await }
            };
            futures::stream::iter(runs).map(one).buffered(REQUESTS_AT_ONCE).try_collect::<Vec<_>>().await
        });
        let fetched = fetched.map_err(|cause| error::reading(&cause, &self.path))?;
        let checked = fetched.into_iter().map(|(meta, range, bytes)| {
            self.fetched_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if ObjectVersion::from_meta(&meta) != self.version {
                return Err(error::changed(&self.path));
            }
            Ok((range.start, bytes))
        });
        checked.collect()
    }
}

impl RangeSource for RemoteObject {
    fn size_bytes(&self) -> u64 {
        self.version.size
    }

    fn location(&self) -> &Path {
        &self.path
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError> {
        if let Some(range) =
            ranges.iter().find(|range| range.start > range.end || range.end > self.version.size)
        {
            return Err(error::outside(range, self.version.size, &self.path));
        }
        let (mut held, runs) = {
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let held = blocks.held(ranges);
            let runs = blocks.missing(ranges, &held);
            (held, runs)
        };
        if !runs.is_empty() {
            let fetched = self.fetch(runs)?;
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            for (start, bytes) in fetched {
                held.extend(blocks.insert(start, &bytes));
            }
        }
        Ok(ranges.iter().map(|range| blocks::assemble(range, &held)).collect())
    }
}

impl ObjectVersion {
    fn from_meta(meta: &ObjectMeta) -> Self {
        let tag = meta.e_tag.clone();
        // With a tag, times are irrelevant: mirrors of one object differ in them.
        let modified_ns = meta.last_modified.timestamp_nanos_opt().filter(|_| tag.is_none());
        Self { size: meta.size, tag, modified_ns }
    }
}

/// The last bytes of an object. Servers that know no ranges from the end are asked for the size first.
async fn tail(
    store: &dyn ObjectStore,
    object: &object_store::path::Path,
) -> object_store::Result<(ObjectMeta, Range<u64>, Bytes)> {
    let get = async |range: GetRange| {
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        read_all(store.get_opts(object, options).await?).await
    };
    match get(GetRange::Suffix(TAIL_BYTES)).await {
        // The error is that of the first request: it says what is wrong with the object.
        Err(cause) if error::refuses_ranges_from_the_end(&cause) => match store.head(object).await {
            Ok(meta) if meta.size > 0 => {
                get((meta.size.saturating_sub(TAIL_BYTES)..meta.size).into()).await.map_err(|_| cause)
            }
            _ => Err(cause),
        },
        answer => answer,
    }
}

/// A response with all announced bytes.
async fn read_all(answer: GetResult) -> object_store::Result<(ObjectMeta, Range<u64>, Bytes)> {
    let (meta, range) = (answer.meta.clone(), answer.range.clone());
    let bytes = answer.bytes().await?;
    let expected_bytes = range.end - range.start;
    if bytes.len() as u64 == expected_bytes {
        return Ok((meta, range, bytes));
    }
    Err(object_store::Error::Generic {
        store: "remote",
        source: error::cut_short(bytes.len(), expected_bytes),
    })
}

/// Runs network waits on threads of its own: any thread may wait for them.
fn wait<T: Send + 'static>(
    work: impl Future<Output = object_store::Result<T>> + Send + 'static,
) -> object_store::Result<T> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let build = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("stallmap-remote").enable_all().build().ok()
    };
    let gone = || object_store::Error::Generic { store: "remote", source: "no threads to wait on".into() };
    let runtime = RUNTIME.get_or_init(build).as_ref().ok_or_else(gone)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // The requester may be gone.
        drop(sender.send(work.await));
    });
    receiver.recv().unwrap_or_else(|_| Err(gone()))
}

/// Blocks are the unit of fetching: the first tail holds at least one.
const _: () = assert!(TAIL_BYTES >= 2 * BLOCK_BYTES, "the tail is too short");
