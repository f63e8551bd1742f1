//! One recording of one process: its folder, queued rows, clocks, counters.
//!
//! A process has one session at a time, and a forked child has one of its own: it shares the parent's memory and file and
//! has none of its threads, so the parent's session ends in it at the fork. A child of a process that had started CUDA
//! cannot use CUDA and records nothing.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use stallmap_config::folder::{RunName, SessionOrigin};
use stallmap_config::rank::ProcessRank;
use stallmap_config::{Config, PassInstrument};
use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::capture::request::{RequestHeader, SLOT_BYTES};
use stallmap_schema::capture::segment::{self, SegmentWriter};
use stallmap_schema::id::RunId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::run::{Run, RunOption};
use stallmap_schema::word::{Instrument, LossKind};

use crate::guard::{self, say};
use crate::torch::calls::TorchState;
use compress::{FrameCompressors, RawFrame};
use reserve::FileReserve;
use switch::RecordingSwitch;
use tables::TableBatch;
use writer::{SessionWriter, WriterMessage, WriterShared};

mod compress;
mod host;
mod losses;
mod progress;
mod quick_exit;
mod reserve;
mod switch;
mod tables;
mod writer;

/// Messages that may wait for the writer: the program waits when more would.
const QUEUE: usize = 64;
/// Sessions of a process and its children, grandchildren and so on. Those of later generations record nothing.
const GENERATIONS: usize = 32;
/// The fact that everything was written.
const CLEAN_END: &str = "clean_end";

struct RecorderSession {
    config: Config,
    clock_offset_ns: i64,
    shared: Arc<WriterShared>,
    writer: SyncSender<WriterMessage>,
    compressors: FrameCompressors,
    closed: AtomicBool,
    next_ordinal: AtomicU64,
    next_thread: AtomicU32,
    torch: TorchState,
}

/// The sessions of this process and of those that it was forked from. A child never touches those of its parents, whose
/// locks may have been held when it was made.
static SESSIONS: [OnceLock<Option<RecorderSession>>; GENERATIONS] = [const { OnceLock::new() }; GENERATIONS];
/// Number of forks of this process's ancestors since the first request for a session.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// Ends the instrument. It is set when the program starts CUDA, before the instrument is attached. A forked child may
/// read it.
static INSTRUMENT: OnceLock<fn()> = OnceLock::new();
/// Set in a child of a process that had started CUDA.
static CANNOT_USE_CUDA: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The thread's number, and the generation that gave it.
    static THREAD: Cell<Option<(usize, u32)>> = const { Cell::new(None) };
}

/// Starts the session if the environment asks for one. Later calls do nothing. Returns whether there is one.
pub fn start() -> bool {
    let slot = SESSIONS.get(generation()).filter(|_| !is_forked_after_cuda());
    slot.is_some_and(|slot| slot.get_or_init(open).is_some()) && session().is_some()
}

/// Number of forks since the process that first had the library. A session's data is not valid in another fork.
pub fn generation() -> usize {
    GENERATION.load(Ordering::Acquire)
}

/// True if the process was forked from one that had started CUDA: it cannot use CUDA, and nothing is recorded in it.
pub fn is_forked_after_cuda() -> bool {
    CANNOT_USE_CUDA.load(Ordering::Acquire)
}

fn session() -> Option<&'static RecorderSession> {
    of_process().filter(|session| !session.closed.load(Ordering::Acquire))
}

/// The session of this process, which may have ended.
fn of_process() -> Option<&'static RecorderSession> {
    SESSIONS.get(generation())?.get()?.as_ref()
}

/// True after everything was written. Launches that the program still makes are to be counted by [`lose_late`].
pub fn has_ended() -> bool {
    of_process().is_some_and(|session| session.closed.load(Ordering::Acquire))
}

fn open() -> Option<RecorderSession> {
    let json = std::env::var(stallmap_config::VARIABLE).ok()?;
    let opened = Config::from_json(&json).map_err(|error| error.to_string()).and_then(RecorderSession::open);
    match opened {
        Ok(session) => Some(session),
        Err(error) => {
            say(&format!("nothing is recorded in process {}: {error}", std::process::id()));
            None
        }
    }
}

impl RecorderSession {
    fn open(config: Config) -> Result<Self, String> {
        let start_ns = unix_ns();
        let origin = SessionOrigin { host: host::name(), start_ns: start_ns.unsigned_abs() };
        let name =
            RunName { instrument: config.instrument, process_id: std::process::id(), origin: Some(origin) };
        let directory = config.directory.join(name.to_string());
        let failed =
            |error: &dyn std::fmt::Display| format!("failed to create `{}`: {error}", directory.display());
        std::fs::create_dir_all(config.directory.join("cubins")).map_err(|error| failed(&error))?;
        std::fs::create_dir(&directory).map_err(|error| failed(&error))?;
        let shared = Arc::new(WriterShared::new(&directory));
        shared.set_paused(config.selection.paused);
        let mut switch = config.selection.has_switch.then(|| RecordingSwitch::new(&config.directory));
        if let Some(switch) = &mut switch {
            switch.apply(&shared);
        }
        let writer = start_writer(&directory, Arc::clone(&shared), switch)?;
        let session = Self {
            clock_offset_ns: start_ns - monotonic_ns(),
            shared,
            writer,
            compressors: FrameCompressors::start(&directory.join(segment::FILE_NAME))?,
            closed: AtomicBool::new(false),
            next_ordinal: AtomicU64::new(0),
            next_thread: AtomicU32::new(0),
            torch: TorchState::default(),
            config,
        };
        session.describe();
        session.lose_foreign_ranges();
        host::at_exit();
        quick_exit::watch();
        Ok(session)
    }

    /// The run's first rows.
    fn describe(&self) {
        let instrument = match self.config.instrument {
            PassInstrument::Accesses => Instrument::Accesses,
            PassInstrument::PcSamples => Instrument::PcSamples,
            PassInstrument::Counters => Instrument::Counters,
            PassInstrument::Native => Instrument::Native,
            PassInstrument::Timeline => Instrument::Timeline,
            PassInstrument::Blocks => Instrument::Blocks,
        };
        let mut arguments = host::arguments();
        let rank = ProcessRank::of_process(arguments.iter().map(String::as_str));
        let program = if arguments.is_empty() { String::new() } else { arguments.remove(0) };
        self.emit(Run {
            instrument,
            program,
            arguments: serde_json::to_string(&arguments).unwrap_or_default(),
            working_directory: std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned(),
            host: host::name(),
            system: host::system(),
            process_id: std::process::id(),
            parent_process_id: Some(std::os::unix::process::parent_id()),
            rank: rank.map(|rank| rank.rank),
            local_rank: rank.and_then(|rank| rank.local_rank),
            world_size: rank.and_then(|rank| rank.world_size),
            started_ns: monotonic_ns() + self.clock_offset_ns,
            clock_offset_ns: self.clock_offset_ns,
            driver_version: host::driver_version(),
            ..Run::default()
        });
        let options = serde_json::to_value(&self.config).unwrap_or_default();
        for (name, value) in options.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.emit(RunOption { run_id: RunId(0), name: name.clone(), value });
        }
    }

    /// Counts that another library takes the ranges of NVTX.
    fn lose_foreign_ranges(&self) {
        let [foreign, own] = [stallmap_config::NVTX_VARIABLE, "STALLMAP_LIBRARY"].map(std::env::var_os);
        if let Some(foreign) = foreign.filter(|foreign| own.is_some_and(|own| own != *foreign)) {
            let reason = "ranges of NVTX go to the library of the program's NVTX_INJECTION64_PATH";
            self.shared.lose(LossKind::Source, reason, 1, Some(foreign.to_string_lossy().into_owned()));
        }
    }

    fn emit<R>(&self, row: R)
    where
        R: TableRow + 'static,
        R::Builder: Send,
    {
        if self.shared.has_failed() {
            self.shared.lose_rows(1);
        } else if let Some(batch) = self.shared.append(row) {
            self.send(WriterMessage::Rows(batch));
        }
    }

    fn send(&self, message: WriterMessage) {
        // The writer only goes away when the process ends.
        if self.writer.send(message).is_err() {
            self.closed.store(true, Ordering::Release);
        }
    }

    /// Writes everything, and that the run has ended.
    fn end(&self) {
        let fact = |name: &str, value: String| RunFact { name: name.to_owned(), value };
        let mut facts = vec![fact("ended_ns", now_ns().to_string())];
        if !guard::is_broken() {
            facts.push(fact(CLEAN_END, "true".to_owned()));
        }
        self.write(|answer| WriterMessage::End(facts, answer));
    }

    /// Gives the writer something to do, and waits for it.
    fn write(&self, message: impl FnOnce(SyncSender<()>) -> WriterMessage) {
        let (answer, done) = sync_channel(1);
        self.send(message(answer));
        // A writer that died has reported why.
        done.recv().unwrap_or_default();
    }
}

/// Starts the thread that writes to a run's folder.
fn start_writer(
    directory: &Path,
    shared: Arc<WriterShared>,
    switch: Option<RecordingSwitch>,
) -> Result<SyncSender<WriterMessage>, String> {
    let path = directory.join(segment::FILE_NAME);
    let file = SegmentWriter::create(&path)
        .map_err(|error| format!("failed to create `{}`: {error}", path.display()))?;
    let reserve = FileReserve::create(directory);
    if let Err(error) = &reserve {
        say(&format!("no disk space is reserved for losses, should the disk be full: {error}"));
    }
    let writer = SessionWriter { file, reserve: reserve.ok(), switch, shared };
    let (sender, messages) = sync_channel(QUEUE);
    std::thread::Builder::new()
        .name("stallmap-writer".into())
        .spawn(move || writer.run(&messages))
        .map_err(|error| format!("failed to start the writer thread: {error}"))?;
    Ok(sender)
}

/// The recording's options; `None` where nothing is recorded.
pub fn config() -> Option<&'static Config> {
    session().map(|session| &session.config)
}

/// The recording's folder, which all its processes share.
pub fn directory() -> Option<&'static Path> {
    session().map(|session| session.config.directory.as_path())
}

/// True if rows cannot be written any more because the disk is full. The session goes on counting losses. Launches
/// that are not begun yet are to be left out.
pub fn has_failed() -> bool {
    session().is_some_and(|session| session.shared.has_failed())
}

/// Bytes that this process has written.
pub fn written_bytes() -> u64 {
    session().map_or(0, |session| session.shared.written_bytes())
}

/// Known facts about PyTorch in this session.
pub(crate) fn torch() -> Option<&'static TorchState> {
    session().map(|session| &session.torch)
}

/// Records a row.
pub fn emit<R>(row: R)
where
    R: TableRow + 'static,
    R::Builder: Send,
{
    if let Some(session) = session() {
        session.emit(row);
    }
}

/// Records rows of one table as a batch, which costs the threads that record single rows nothing.
pub fn emit_all<R>(rows: impl IntoIterator<Item = R, IntoIter: ExactSizeIterator>)
where
    R: TableRow,
{
    let rows = rows.into_iter();
    let Some(session) = session().filter(|_| rows.len() > 0) else { return };
    if session.shared.has_failed() {
        session.shared.lose_rows(rows.len());
    } else if let Ok(rows) = R::batch(rows) {
        session.shared.count_rows(rows.num_rows());
        session.send(WriterMessage::Rows(TableBatch { table: R::TABLE.name, rows }));
    }
}

/// Records the requests of a launch, as the GPU wrote them.
pub fn emit_requests(ordinal: u64, records: Vec<u8>) {
    let Some(session) = session() else { return };
    if session.shared.has_failed() {
        session.shared.lose(LossKind::Access, "recording had stopped", request_count(&records), None);
        return;
    }
    session.shared.count_frame();
    session.send(WriterMessage::Frame(session.compressors.compress(RawFrame::Requests { ordinal, records })));
}

fn request_count(mut records: &[u8]) -> u64 {
    let mut count = 0;
    while let Some(slot) = records.first_chunk::<SLOT_BYTES>() {
        let bytes = RequestHeader::read(slot).slots() * SLOT_BYTES;
        records = records.get(bytes..).unwrap_or_default();
        count += 1;
    }
    count
}

/// Records contents of pages, whose content_ids count on from the first one's.
pub fn emit_pages(first_content_id: u64, bytes: Vec<u8>) {
    let Some(session) = session() else { return };
    if session.shared.has_failed() {
        session.shared.lose_rows(1);
        return;
    }
    session.shared.count_frame();
    session.send(WriterMessage::Frame(
        session.compressors.compress(RawFrame::Pages { first_content_id, bytes }),
    ));
}

/// Records something that became known about the run.
pub fn fact(name: &'static str, value: String) {
    emit(RunFact { name: name.to_owned(), value });
}

/// Counts things that are not recorded.
pub fn lose(kind: LossKind, reason: &'static str, count: u64, detail: Option<String>) {
    if let Some(session) = session() {
        session.shared.lose(kind, reason, count, detail);
    }
}

/// Counts launches that the program makes after the session has ended, as destructors of statics do. The writer's thread
/// still writes them.
pub fn lose_late(count: u64) {
    if let Some(session) = of_process().filter(|_| count > 0) {
        session.shared.lose(LossKind::Launch, "launched while the process was ending", count, None);
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

/// Nanoseconds on the clock that [`unix_of`] takes, with or without a session.
pub fn clock_ns() -> i64 {
    monotonic_ns()
}

/// A time of [`clock_ns`] as nanoseconds since the Unix epoch.
pub fn unix_of(clock_ns: i64) -> i64 {
    clock_ns + session().map_or(0, |session| session.clock_offset_ns)
}

/// This thread's number.
pub fn thread_id() -> u32 {
    let Some(session) = session() else { return 0 };
    let number = |thread: &Cell<Option<(usize, u32)>>| match thread.get() {
        Some((known, number)) if known == generation() => number,
        _ => {
            let number = session.next_thread.fetch_add(1, Ordering::Relaxed);
            thread.set(Some((generation(), number)));
            number
        }
    };
    THREAD.try_with(number).unwrap_or(u32::MAX)
}

/// Ordinal of the next launch.
pub fn next_ordinal() -> u64 {
    session().map_or(0, |session| session.next_ordinal.load(Ordering::Acquire))
}

/// Takes the next launch's ordinal.
pub fn take_ordinal() -> u64 {
    session().map_or(0, |session| session.next_ordinal.fetch_add(1, Ordering::AcqRel))
}

/// Takes the ordinals of so many launches in a row: the first.
pub fn take_ordinals(count: u64) -> u64 {
    session().map_or(0, |session| session.next_ordinal.fetch_add(count, Ordering::AcqRel))
}

/// Stops or resumes the recording of launches.
pub fn set_paused(paused: bool) {
    if let Some(session) = session() {
        session.shared.set_paused(paused);
    }
}

/// True if launches are being left out.
pub fn is_paused() -> bool {
    session().is_some_and(|session| session.shared.is_paused())
}

/// Says that the program starts CUDA, and what ends its instrument. The first call decides.
pub fn begin_instrument(shut_down: fn()) {
    INSTRUMENT.get_or_init(|| shut_down);
}

/// Writes everything. The session records nothing afterwards, and counts launches. A later call writes those counts.
pub fn finish() {
    let Some(session) = of_process() else { return };
    if session.closed.load(Ordering::Acquire) {
        session.write(WriterMessage::Losses);
        return;
    }
    if !guard::is_broken() {
        INSTRUMENT.get().inspect(|shut_down| shut_down());
    }
    session.end();
    session.closed.store(true, Ordering::Release);
}

/// Runs in a forked child, where only atomics may be touched.
fn leave_in_child() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
    if INSTRUMENT.get().is_some() {
        CANNOT_USE_CUDA.store(true, Ordering::Release);
    }
}

fn unix_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

fn monotonic_ns() -> i64 {
    host::monotonic_ns()
}
