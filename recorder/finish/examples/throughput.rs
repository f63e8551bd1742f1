//! Throughput, CPU time and memory of finalizing accesses, where every third request is irregular, or one in so many:
//! `cargo run --release -p stallmap-finish --example throughput -- FOLDER LAUNCHES REQUESTS_EACH [IRREGULAR_EVERY]`.
//! With `FOLDER NAME.stallmap TIMES [PROCESSES]`, of the requests of a capture, so many times in each of so many processes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use stallmap_finish::finish;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::capture::request::{
    ATOMIC, OFFSETS_32, OFFSETS_64, READ, REGULAR, RequestHeader, SLOT_BYTES, SPACE_GLOBAL, SPACE_SHARED,
    WRITE,
};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::id::{Address, FunctionId, KernelId, ModuleId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{AccessKind, Space};

const CODE: u64 = 0x1000;
/// Instructions of the kernel. The second one gathers.
const INSTRUCTIONS: u64 = 3;
/// Bytes of records of a launch that the recorder writes at once. A thread unpacks no less than that.
const PIECE_BYTES: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, launches, requests, rest @ ..] = &arguments[..] else {
        return Err("usage: throughput FOLDER LAUNCHES REQUESTS_EACH [IRREGULAR_EVERY]".into());
    };
    let partial = Path::new(folder).join("throughput.stallmap.partial");
    let count = Path::new(folder).join("requests");
    if partial.exists() {
        println!("segment: that of the run before");
    } else {
        let began = Instant::now();
        let (made, bytes) = if launches.ends_with(".stallmap") {
            let processes = rest.first().map_or(Ok(1), |processes| processes.parse())?;
            repeat(&partial, Path::new(launches), requests.parse()?, processes)?
        } else {
            let irregular_every = rest.first().map_or(Ok(INSTRUCTIONS), |every| every.parse())?;
            record(&mut segment(&partial, 1)?, (launches.parse()?, requests.parse()?), irregular_every)?
        };
        println!("segments: {bytes} bytes in {:.1} s", began.elapsed().as_secs_f64());
        fs::write(&count, made.to_string())?;
    }
    let requests: f64 = fs::read_to_string(&count)?.parse()?;

    let output = Path::new(folder).join("throughput.stallmap");
    // The one of the run before.
    drop(fs::remove_file(&output));
    let (began, before) = (Instant::now(), ResourceUsage::now()?);
    let stages = RefCell::new(Vec::<(&str, Instant)>::new());
    let summary = finish(&partial, &output, &|progress| {
        let mut stages = stages.borrow_mut();
        if stages.last().is_none_or(|(stage, _)| *stage != progress.stage) {
            stages.push((progress.stage, Instant::now()));
        }
    })?;
    stages.borrow_mut().push(("end", Instant::now()));
    for pair in stages.borrow().windows(2) {
        println!("{}: {:.3} s", pair[0].0, (pair[1].1 - pair[0].1).as_secs_f64());
    }
    let seconds = began.elapsed().as_secs_f64();
    let lanes = summary.runs.iter().map(|run| run.lane_access_count).sum::<u64>();
    println!("capture: {} bytes of {lanes} lane accesses in {seconds:.1} s", summary.bytes);
    println!("{:.1} million requests a second", requests / seconds / 1e6);
    let after = ResourceUsage::now()?;
    let (user, kernel) = (after.user_s - before.user_s, after.system_s - before.system_s);
    let threads = std::thread::available_parallelism()?;
    println!("{threads} threads: {user:.1} s of CPU time, and {kernel:.1} s of the kernel's");
    println!("{:.0} ns of CPU time a request", (user + kernel) / requests * 1e9);
    println!("{:.1} page faults per 1,000 requests", (after.faults - before.faults) / requests * 1e3);
    let status = fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}

/// Time and page faults of all threads of the process.
struct ResourceUsage {
    user_s: f64,
    system_s: f64,
    faults: f64,
}

impl ResourceUsage {
    /// Up to now. The kernel counts CPU time in hundredths of a second.
    fn now() -> Result<Self, Box<dyn Error>> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        // Behind the program's name: state, 6 numbers, minor faults, 3 numbers, ticks of the program and of the kernel.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let numbers: Vec<f64> = fields.skip(7).take(6).map(str::parse).collect::<Result<_, _>>()?;
        let [faults, _, _, _, user, system] = numbers[..] else {
            return Err("/proc/self/stat is short".into());
        };
        Ok(Self { user_s: user / 100.0, system_s: system / 100.0, faults })
    }
}

/// The segment of a process.
fn segment(partial: &Path, process: u64) -> Result<SegmentWriter, Box<dyn Error>> {
    let run = partial.join(format!("run-accesses-{process}"));
    fs::create_dir_all(&run)?;
    Ok(SegmentWriter::create(&run.join("rows.seg"))?)
}

/// Writes a run of launches. One in so many requests is irregular. Returns the numbers of requests and of bytes.
fn record(
    segment: &mut SegmentWriter,
    (launches, requests): (u64, u64),
    irregular_every: u64,
) -> Result<(u64, u64), Box<dyn Error>> {
    segment.append_batch(CodeRange::TABLE.name, &CodeRange::batch([code(FunctionId(1), CODE)])?)?;
    append_launches(segment, launches)?;
    for ordinal in 0..launches {
        let mut records = Vec::new();
        let mut random = ordinal;
        for index in 0..requests {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Warps run in no order.
            let warp = (index / INSTRUCTIONS) ^ (random >> 60);
            let is_irregular = index % irregular_every == 1;
            records.extend(request(warp, index % INSTRUCTIONS, is_irregular).write());
            if is_irregular {
                let distance = |lane| (random.rotate_left(lane) % (1 << 24)).to_le_bytes();
                records.extend((0..32_u32).flat_map(|lane| distance(lane).into_iter().take(4)));
            }
            if records.len() >= PIECE_BYTES {
                segment.append_requests(ordinal, &std::mem::take(&mut records))?;
            }
        }
        segment.append_requests(ordinal, &records)?;
    }
    Ok((launches * requests, segment.bytes()))
}

/// Writes the requests of a capture so many times in each process, each launch in the order in which the GPU queued them.
/// Returns the numbers of requests and of bytes.
fn repeat(partial: &Path, capture: &Path, times: u64, processes: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let mut launches: BTreeMap<KernelId, Vec<MemoryAccess>> = BTreeMap::new();
    let mut functions: BTreeMap<FunctionId, u64> = BTreeMap::new();
    for row in CaptureReader::open(capture)?.read_rows::<MemoryAccess>()? {
        let next = CODE + ((functions.len() as u64) << 32);
        functions.entry(row.function_id).or_insert(next);
        launches.entry(row.kernel_id).or_default().push(row);
    }
    for rows in launches.values_mut() {
        rows.sort_unstable_by_key(|row| row.sequence);
    }
    let (launches, functions) = (&launches, &functions);
    let write = |process| write(&mut segment(partial, process)?, launches, functions, times);
    let made = std::thread::scope(|scope| {
        let spawn = |process| scope.spawn(move || write(process).map_err(|error| error.to_string()));
        let running: Vec<_> = (1..=processes).map(spawn).collect();
        running
            .into_iter()
            .map(|run| run.join().map_err(|_| "a thread failed".to_owned())?)
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(made.into_iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1)))
}

/// Writes the launches of a process, each so many times.
fn write(
    segment: &mut SegmentWriter,
    launches: &BTreeMap<KernelId, Vec<MemoryAccess>>,
    functions: &BTreeMap<FunctionId, u64>,
    times: u64,
) -> Result<(u64, u64), Box<dyn Error>> {
    let codes = functions.iter().map(|(function, address)| code(*function, *address));
    segment.append_batch(CodeRange::TABLE.name, &CodeRange::batch(codes)?)?;
    append_launches(segment, launches.len() as u64 * times)?;
    let (mut ordinal, mut count) = (0, 0);
    for rows in launches.values() {
        for _ in 0..times {
            let mut records = Vec::new();
            for row in rows {
                append(&mut records, row, functions[&row.function_id]);
                if records.len() >= PIECE_BYTES {
                    segment.append_requests(ordinal, &std::mem::take(&mut records))?;
                }
            }
            segment.append_requests(ordinal, &records)?;
            (ordinal, count) = (ordinal + 1, count + rows.len() as u64);
        }
    }
    Ok((count, segment.bytes()))
}

/// Writes so many launches as one batch, as the recorder does.
fn append_launches(segment: &mut SegmentWriter, count: u64) -> Result<(), Box<dyn Error>> {
    let rows: Vec<Launch> = (0..count).map(launch).collect();
    Ok(segment.append_batch(Launch::TABLE.name, &Launch::batch(rows)?)?)
}

/// Adds a row as the record that the GPU writes.
fn append(records: &mut Vec<u8>, row: &MemoryAccess, code: u64) {
    let lanes_apart = row.lane_mask.ilog2() - row.lane_mask.trailing_zeros();
    let reach = i64::from(row.stride_bytes.unwrap_or(0)) * i64::from(lanes_apart);
    let offset = |offset: u32| i64::from(offset) << row.offset_shift;
    let offsets = row.offsets.as_deref().unwrap_or_default();
    let first = offsets.first().map_or(-reach.min(0), |first| offset(*first));
    let distances: Vec<i64> = offsets.iter().map(|other| offset(*other) - first).collect();
    let is_near = distances.iter().all(|distance| i32::try_from(*distance).is_ok());
    let request = RequestHeader {
        address: row.address.0.wrapping_add_signed(first),
        pc: code + u64::from(row.pc.0),
        access_bytes: row.access_bytes,
        flags: match row.kind {
            AccessKind::Write => WRITE,
            AccessKind::Atomic => ATOMIC,
            _ => READ,
        },
        lane_mask: row.lane_mask,
        stride: row.stride_bytes.unwrap_or(0),
        block: row.block,
        warp: u8::try_from(row.warp).unwrap_or(0),
        space: if row.space == Space::Shared { SPACE_SHARED } else { SPACE_GLOBAL },
        encoding: match (row.offsets.is_some(), is_near) {
            (false, _) => REGULAR,
            (true, true) => OFFSETS_32,
            (true, false) => OFFSETS_64,
        },
    };
    records.extend(request.write());
    let width = if is_near { 4 } else { 8 };
    let begin = records.len();
    records.extend(distances.iter().flat_map(|distance| distance.to_le_bytes().into_iter().take(width)));
    let bytes = (records.len() - begin).next_multiple_of(SLOT_BYTES);
    records.resize(begin + bytes, 0);
}

fn code(function_id: FunctionId, address: u64) -> CodeRange {
    CodeRange {
        function_id,
        module_id: ModuleId(1),
        name: format!("{:x}", function_id.0),
        is_kernel: true,
        address: Address(address),
        code_bytes: 1 << 31,
        ordinal: 0,
    }
}

fn request(warp: u64, instruction: u64, is_irregular: bool) -> RequestHeader {
    RequestHeader {
        address: (1 << 40) + instruction * (1 << 30) + warp * 128,
        pc: CODE + instruction * 16,
        access_bytes: 4,
        flags: READ,
        lane_mask: u32::MAX,
        stride: if is_irregular { 0 } else { 4 },
        block: warp / 8,
        warp: u8::try_from(warp % 8).unwrap_or(0),
        space: 0,
        encoding: if is_irregular { OFFSETS_32 } else { REGULAR },
    }
}

fn launch(ordinal: u64) -> Launch {
    Launch {
        kernel_id: KernelId(ordinal),
        function_id: FunctionId(1),
        ordinal,
        grid_x: 1,
        grid_y: 1,
        grid_z: 1,
        block_x: 256,
        block_y: 1,
        block_z: 1,
        ..Launch::default()
    }
}
