//! One recording of one process: its folder, its rows on their way to the disk, its clocks and counters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stallmap_config::{Config, Instrument};
use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::RunId;
use stallmap_schema::table::Row;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::run::{Run, RunOption};
use stallmap_schema::word::{Instrument as InstrumentWord, LossKind};

use crate::guard::say;
use compress::{Compressed, Compressors, Raw};
use tables::{Batch, Tables};

mod compress;
mod host;
mod tables;

/// How often rows reach the disk at the latest.
const FLUSH: Duration = Duration::from_millis(100);
/// Messages that may wait for the writer: the program waits when more would.
const QUEUE: usize = 64;

/// What the writer thread is told.
enum Message {
    /// Rows of one table.
    Rows(Batch),
    /// Records of one launch, or contents of pages, which a compressing thread will deliver.
    Frame(Receiver<Compressed>),
    /// Write everything, then answer.
    Flush(SyncSender<()>),
}

/// How many things of a kind were lost for a reason, with a detail of the first that had one.
type Losses = BTreeMap<(LossKind, &'static str), (u64, Option<String>)>;

struct Session {
    config: Config,
    clock_offset_ns: i64,
    tables: Mutex<Tables>,
    losses: Mutex<Losses>,
    writer: SyncSender<Message>,
    compressors: Compressors,
    paused: AtomicBool,
}

static SESSION: OnceLock<Option<Session>> = OnceLock::new();
/// Set in a forked child, which has this process's memory and not its writer thread, and at the end.
static CLOSED: AtomicBool = AtomicBool::new(false);
static NEXT_ORDINAL: AtomicU64 = AtomicU64::new(0);
static NEXT_THREAD: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD: u32 = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

/// Starts the session where the environment asks for one; later calls do nothing. Whether there is one.
pub fn start() -> bool {
    SESSION.get_or_init(open).is_some() && !CLOSED.load(Ordering::Relaxed)
}

fn session() -> Option<&'static Session> {
    if CLOSED.load(Ordering::Relaxed) {
        return None;
    }
    SESSION.get().and_then(Option::as_ref)
}

fn open() -> Option<Session> {
    let json = std::env::var(stallmap_config::VARIABLE).ok()?;
    let opened = Config::from_json(&json).map_err(|error| error.to_string()).and_then(Session::open);
    match opened {
        Ok(session) => Some(session),
        Err(error) => {
            say(&format!("nothing is recorded in process {}: {error}", std::process::id()));
            None
        }
    }
}

impl Session {
    fn open(config: Config) -> Result<Self, String> {
        let name = config.instrument.word();
        let directory = config.directory.join(format!("run-{name}-{}", std::process::id()));
        let failed =
            |error: &dyn std::fmt::Display| format!("failed to create `{}`: {error}", directory.display());
        std::fs::create_dir_all(config.directory.join("cubins")).map_err(|error| failed(&error))?;
        std::fs::create_dir_all(&directory).map_err(|error| failed(&error))?;
        let file = SegmentWriter::create(&directory.join("rows.seg")).map_err(|error| failed(&error))?;
        let compressors = Compressors::start(&directory.join("rows.seg"))?;
        let (writer, messages) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("stallmap-writer".into())
            .spawn(move || write(file, &messages))
            .map_err(|error| format!("failed to start the writer thread: {error}"))?;
        let clock_offset_ns = unix_ns() - monotonic_ns();
        let session = Self {
            clock_offset_ns,
            tables: Mutex::default(),
            losses: Mutex::default(),
            writer,
            compressors,
            paused: AtomicBool::new(config.selection.paused),
            config,
        };
        session.describe();
        host::at_exit();
        Ok(session)
    }

    /// The run's first rows.
    fn describe(&self) {
        let instrument = match self.config.instrument {
            Instrument::Accesses => InstrumentWord::Accesses,
            Instrument::PcSamples => InstrumentWord::PcSamples,
            Instrument::Counters => InstrumentWord::Counters,
            Instrument::Native => InstrumentWord::Native,
        };
        let mut arguments = host::arguments();
        let program = if arguments.is_empty() { String::new() } else { arguments.remove(0) };
        self.emit(Run {
            run_id: RunId(0),
            instrument,
            reference_run_id: RunId(0),
            program,
            arguments: serde_json::to_string(&arguments).unwrap_or_default(),
            working_directory: std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned(),
            host: host::name(),
            system: host::system(),
            process_id: std::process::id(),
            started_ns: monotonic_ns() + self.clock_offset_ns,
            ended_ns: None,
            clock_offset_ns: self.clock_offset_ns,
            exit_code: None,
            exit_signal: None,
            driver_version: host::driver_version(),
            cuda_version: None,
            instrument_version: None,
            python_version: None,
            torch_version: None,
            sampling_period_cycles: None,
            parent_process_id: None,
            rank: None,
            local_rank: None,
            world_size: None,
        });
        let options = serde_json::to_value(&self.config).unwrap_or_default();
        for (name, value) in options.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.emit(RunOption { run_id: RunId(0), name: name.clone(), value });
        }
    }

    fn emit<R>(&self, row: R)
    where
        R: Row + 'static,
        R::Builder: Send,
    {
        let full = self.tables.lock().unwrap_or_else(PoisonError::into_inner).append(row);
        if let Some(batch) = full {
            self.send(Message::Rows(batch));
        }
    }

    fn send(&self, message: Message) {
        // The writer only goes away when the process ends.
        if self.writer.send(message).is_err() {
            CLOSED.store(true, Ordering::Relaxed);
        }
    }

    fn flush(&self) {
        let batches = self.tables.lock().unwrap_or_else(PoisonError::into_inner).take();
        for batch in batches {
            self.send(Message::Rows(batch));
        }
        let (answer, done) = sync_channel(1);
        self.send(Message::Flush(answer));
        // A writer that died has said why.
        done.recv().unwrap_or_default();
    }
}

/// The recording's options; `None` where nothing is recorded.
pub fn config() -> Option<&'static Config> {
    session().map(|session| &session.config)
}

/// The recording's folder, which all its processes share.
pub fn directory() -> Option<&'static std::path::Path> {
    session().map(|session| session.config.directory.as_path())
}

/// Records a row.
pub fn emit<R>(row: R)
where
    R: Row + 'static,
    R::Builder: Send,
{
    if let Some(session) = session() {
        session.emit(row);
    }
}

/// Records the requests of a launch, as the GPU wrote them.
pub fn emit_requests(ordinal: u64, records: Vec<u8>) {
    if let Some(session) = session() {
        session.send(Message::Frame(session.compressors.compress(Raw::Requests { ordinal, records })));
    }
}

/// Records contents of pages, whose content_ids count on from the first one's.
pub fn emit_pages(first_content_id: u64, bytes: Vec<u8>) {
    if let Some(session) = session() {
        session.send(Message::Frame(session.compressors.compress(Raw::Pages { first_content_id, bytes })));
    }
}

/// Records something that became known about the run.
pub fn fact(name: &'static str, value: String) {
    emit(RunFact { name: name.to_owned(), value });
}

/// Counts things that are not recorded.
pub fn lose(kind: LossKind, reason: &'static str, count: u64, detail: Option<String>) {
    if let Some(session) = session() {
        let mut losses = session.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = losses.entry((kind, reason)).or_default();
        entry.0 += count;
        if entry.1.is_none() {
            entry.1 = detail;
        }
    }
}

/// Counts an op or region that ended while its thread was ending.
pub fn lose_region() {
    lose(LossKind::Op, "thread was ending", 1, None);
}

/// Nanoseconds since the Unix epoch, on a clock that never steps.
pub fn now_ns() -> i64 {
    monotonic_ns() + session().map_or(0, |session| session.clock_offset_ns)
}

/// This thread's number.
pub fn thread_id() -> u32 {
    THREAD.try_with(|id| *id).unwrap_or(u32::MAX)
}

/// Ordinal of the next launch.
pub fn next_ordinal() -> u64 {
    NEXT_ORDINAL.load(Ordering::Acquire)
}

/// Takes the next launch's ordinal.
pub fn take_ordinal() -> u64 {
    NEXT_ORDINAL.fetch_add(1, Ordering::AcqRel)
}

/// Takes the ordinals of so many launches that follow each other, and gives the first.
pub fn take_ordinals(count: u64) -> u64 {
    NEXT_ORDINAL.fetch_add(count, Ordering::AcqRel)
}

/// Stops or resumes the recording of launches.
pub fn set_paused(paused: bool) {
    if let Some(session) = session() {
        session.paused.store(paused, Ordering::Relaxed);
    }
}

/// Whether launches are being left out.
pub fn is_paused() -> bool {
    session().is_some_and(|session| session.paused.load(Ordering::Relaxed))
}

/// Writes everything; the session records nothing afterwards.
pub fn finish() {
    let Some(session) = session() else { return };
    crate::gpu::shut_down();
    write_losses(session);
    session.emit(RunFact { name: "ended_ns".into(), value: now_ns().to_string() });
    session.emit(RunFact { name: "clean_end".into(), value: "true".into() });
    session.flush();
    CLOSED.store(true, Ordering::Relaxed);
}

fn write_losses(session: &Session) {
    let losses = std::mem::take(&mut *session.losses.lock().unwrap_or_else(PoisonError::into_inner));
    for ((kind, reason), (lost_count, detail)) in losses {
        session.emit(Loss {
            run_id: RunId(0),
            kind,
            reason: reason.to_owned(),
            lost_count,
            kernel_id: None,
            detail,
        });
    }
}

/// A forked child shares the parent's memory and file, and none of its threads: it must not write.
fn close_in_child() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// The writer thread: rows and requests to the segment file, at the latest every [`FLUSH`].
fn write(mut file: SegmentWriter, messages: &Receiver<Message>) {
    let mut failed = false;
    loop {
        let written = match messages.recv_timeout(FLUSH) {
            Ok(_) if failed => Ok(()),
            Ok(Message::Rows(batch)) => file.append_batch(batch.table, &batch.rows),
            // A compressing thread that is gone has said why.
            Ok(Message::Frame(frame)) => frame.recv().map_or(Ok(()), |frame| file.append_frame(&frame?)),
            Ok(Message::Flush(answer)) => {
                let flushed = file.flush();
                answer.send(()).unwrap_or_default();
                flushed
            }
            Err(RecvTimeoutError::Timeout) => append_pending(&mut file),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let Err(error) = written {
            failed = true;
            say(&format!("recording stopped, what was written is kept: {error}"));
        }
    }
}

/// Rows that waited for their table to fill.
fn append_pending(file: &mut SegmentWriter) -> Result<(), stallmap_schema::capture::error::CaptureError> {
    let Some(session) = session() else { return Ok(()) };
    let batches = session.tables.lock().unwrap_or_else(PoisonError::into_inner).take();
    for batch in batches {
        file.append_batch(batch.table, &batch.rows)?;
    }
    Ok(())
}

fn unix_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

fn monotonic_ns() -> i64 {
    host::monotonic_ns()
}
