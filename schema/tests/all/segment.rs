//! Whatever happens to a writer, every frame whose append returned is read back.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use arrow::array::RecordBatch;
use proptest::prelude::*;
use proptest::sample::Index;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::capture::request::{OFFSETS_32, READ, REGULAR, RequestHeader};
use stallmap_schema::capture::segment::{
    FrameEncoder, FrameKind, SegmentFrame, SegmentReader, SegmentSink, SegmentWriter,
};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::replay::PAGE_BYTES;

const CHILD: &str = "STALLMAP_TEST_SEGMENT";

fn facts(number: usize, rows: usize) -> RecordBatch {
    let row = |index| RunFact { name: format!("fact {number}"), value: format!("{index}") };
    RunFact::batch((0..rows).map(row)).unwrap()
}

fn request(encoding: u8, lane_mask: u32) -> Vec<u8> {
    let request = RequestHeader {
        address: 0x7f00_0000_0000,
        pc: 0x1000,
        access_bytes: 4,
        flags: READ,
        lane_mask,
        stride: 4,
        block: 7,
        warp: 1,
        space: 0,
        encoding,
    };
    let mut bytes = request.write().to_vec();
    bytes.resize(request.slots() * 32, 0xa5);
    bytes
}

/// Frames as text, for comparing what was written with what was read.
fn contents(reader: &SegmentReader) -> Vec<String> {
    let text = |frame: &_| match reader.read(frame).unwrap() {
        SegmentFrame::Rows { table, batch } => format!("{table} {:?}", RunFact::read_all(&batch).unwrap()),
        SegmentFrame::Requests { launch_ordinal, records } => format!("{launch_ordinal} {records:?}"),
        SegmentFrame::Pages { first_content_id, bytes } => format!("pages {first_content_id} {bytes:?}"),
    };
    reader.frames().iter().map(text).collect()
}

/// A segment of a few frames, and the offset at which each of them ends.
fn example(path: &Path) -> Vec<u64> {
    let mut writer = SegmentWriter::create(path).unwrap();
    let mut ends = vec![writer.bytes()];
    for number in 0..7 {
        if number == 6 {
            let pages = [[7; PAGE_BYTES], [9; PAGE_BYTES]].concat();
            let frame = FrameEncoder::new(path).unwrap().pages(41, &pages).unwrap();
            writer.append_frame(&frame).unwrap();
        } else if number % 2 == 0 {
            writer.append_batch("run_fact", &facts(number, 1 + number * 40)).unwrap();
        } else {
            let records = [request(REGULAR, u32::MAX), request(OFFSETS_32, 0xff00)].concat();
            writer.append_requests(number as u64, &records).unwrap();
        }
        ends.push(writer.bytes());
    }
    ends
}

#[test]
fn rows_and_requests_survive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    let ends = example(&path);
    let reader = SegmentReader::open(&path).unwrap();
    assert_eq!(reader.frames().len(), 7);
    assert_eq!(*ends.last().unwrap(), path.metadata().unwrap().len());
    assert!(reader.damages().is_empty());
    let SegmentFrame::Rows { table, batch } = reader.read(&reader.frames()[2]).unwrap() else { panic!() };
    assert_eq!(table, "run_fact");
    assert_eq!(batch.columns(), facts(2, 81).columns());
    assert_eq!(reader.frames()[1].kind, Some(FrameKind::Requests));
    assert_eq!(reader.frames()[1].aux, 1);
}

#[test]
fn damaged_first_bytes_cost_no_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    example(&path);
    let whole = contents(&SegmentReader::open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let reader = SegmentReader::open(&path).unwrap();
    assert_eq!(contents(&reader), whole);
    assert_eq!(reader.damages().len(), 1);
    std::fs::write(&path, &bytes[..40]).unwrap();
    let error = SegmentReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("its first bytes are not a segment's"), "{error}");
}

#[test]
fn a_wrong_bit_of_the_version_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    example(&path);
    let bytes = std::fs::read(&path).unwrap();
    let whole = contents(&SegmentReader::open(&path).unwrap());
    // Earlier releases leave the copy of the version zero.
    for copy in [1, 0] {
        for bit in 64..128 {
            let mut damaged = bytes.clone();
            damaged[12] = copy;
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).unwrap();
            assert_eq!(contents(&SegmentReader::open(&path).unwrap()), whole, "bit {bit}, copy {copy}");
        }
    }
    let mut later = bytes;
    (later[8], later[12]) = (2, 2);
    std::fs::write(&path, &later).unwrap();
    let error = SegmentReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("it has version 2, and this release reads 1"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = SegmentReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("it is not a file"), "{error}");
}

#[test]
fn false_frames_end_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    let mut bytes = b"STALLSEG\x01\0\0\0\0\0\0\0".to_vec();
    // Each header claims the rest of the file.
    let headers = 6 << 20_usize;
    while bytes.len() < headers {
        let claimed = u32::try_from((headers - bytes.len()).saturating_sub(32)).unwrap_or(0);
        bytes.extend(b"SMFR\x01\0\0\0");
        bytes.extend(claimed.to_le_bytes());
        bytes.extend([0; 20]);
    }
    std::fs::write(&path, &bytes).unwrap();
    let started = std::time::Instant::now();
    let reader = SegmentReader::open(&path).unwrap();
    assert!(reader.frames().is_empty() && reader.damages().len() == 1);
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
}

#[test]
fn threads_verify_parts_of_a_large_segment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    let mut writer = SegmentWriter::create(&path).unwrap();
    let mut encoder = FrameEncoder::new(&path).unwrap();
    let mut random = 1_u64;
    let mut bytes = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random.to_be_bytes()
    };
    // Pages that do not compress.
    for first in 0..40 {
        let pages: Vec<u8> = std::iter::repeat_with(&mut bytes).take(PAGE_BYTES * 16).flatten().collect();
        writer.append_frame(&encoder.pages(first * 128, &pages).unwrap()).unwrap();
    }
    assert!(writer.bytes() > 20 << 20, "two threads have something to verify");
    let whole = SegmentReader::open(&path).unwrap();
    assert_eq!((whole.frames().len(), whole.damages()), (40, &[][..]));
    for damaged in [0, 9, 25, 39] {
        let mut bytes = std::fs::read(&path).unwrap();
        let frame = whole.frames()[damaged];
        bytes[usize::try_from(frame.offset).unwrap() + 1000] ^= 1;
        let other = folder.path().join(format!("{damaged}.seg"));
        std::fs::write(&other, bytes).unwrap();
        let reader = SegmentReader::open(&other).unwrap();
        let mut expected = whole.frames().to_vec();
        expected.remove(damaged);
        assert_eq!(reader.frames(), expected);
        assert_eq!(reader.damages().iter().map(|damage| damage.offset).collect::<Vec<_>>(), [frame.offset]);
    }
}

#[test]
fn requests_are_cut_between_records_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    let mut writer = SegmentWriter::create(&path).unwrap();
    let records = request(OFFSETS_32, 0x1ff).repeat(80_000);
    writer.append_requests(9, &records).unwrap();
    let torn = writer.append_requests(10, &records[..records.len() - 32]);
    assert!(matches!(torn, Err(CaptureError::Refused { .. })), "{torn:?}");
    let reader = SegmentReader::open(&path).unwrap();
    let launch = |number| reader.frames().iter().filter(move |frame| frame.aux == number);
    let read = launch(9).flat_map(|frame| match reader.read(frame).unwrap() {
        SegmentFrame::Requests { records, .. } => records,
        SegmentFrame::Rows { .. } | SegmentFrame::Pages { .. } => panic!(),
    });
    assert!(launch(9).count() > 1);
    assert!(read.eq(records));
}

proptest! {
    #[test]
    fn pages_come_back_with_their_ids(
        frames in proptest::collection::vec((any::<u64>(), 1..9_usize, any::<u8>()), 0..6),
        cut in any::<Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.seg");
        let mut writer = SegmentWriter::create(&path).unwrap();
        let mut encoder = FrameEncoder::new(&path).unwrap();
        let mut ends = Vec::new();
        let bytes = |count: usize, seed: u8| -> Vec<u8> {
            (0..count * PAGE_BYTES).map(|at| seed.wrapping_mul((at / 97) as u8)).collect()
        };
        for (first, count, seed) in &frames {
            writer.append_frame(&encoder.pages(*first, &bytes(*count, *seed)).unwrap()).unwrap();
            ends.push(writer.bytes());
        }
        let length = 16 + cut.index(writer.bytes() as usize - 15) as u64;
        std::fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        let reader = SegmentReader::open(&path).unwrap();
        let whole = ends.iter().filter(|end| **end <= length).count();
        prop_assert_eq!(reader.frames().len(), whole);
        for (frame, (first, count, seed)) in reader.frames().iter().zip(&frames) {
            prop_assert_eq!((frame.kind, frame.aux, frame.raw_bytes as usize), (Some(FrameKind::Pages), *first, count * PAGE_BYTES));
            let SegmentFrame::Pages { first_content_id, bytes: read } = reader.read(frame).unwrap() else { panic!() };
            prop_assert_eq!((first_content_id, read), (*first, bytes(*count, *seed)));
        }
    }

    #[test]
    fn a_cut_segment_keeps_its_complete_frames(cut in any::<Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.seg");
        let ends = example(&path);
        let whole = contents(&SegmentReader::open(&path).unwrap());
        let length = cut.index(usize::try_from(*ends.last().unwrap()).unwrap()) as u64;
        std::fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();

        let reader = SegmentReader::open(&path).unwrap();
        let complete = ends.iter().skip(1).filter(|end| **end <= length).count();
        prop_assert_eq!(contents(&reader), &whole[..complete]);
        let stored = ends.iter().copied().filter(|end| *end <= length).max().unwrap_or(0);
        let lost: u64 = reader.damages().iter().map(|damage| damage.bytes).sum();
        prop_assert_eq!(lost, length - stored);
        prop_assert!(reader.damages().iter().all(|damage| damage.is_tail));
    }

    #[test]
    fn a_damaged_byte_costs_one_frame(at in any::<Index>(), flip in 1..=255_u8) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.seg");
        let ends = example(&path);
        let whole = contents(&SegmentReader::open(&path).unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        let at = 16 + at.index(bytes.len() - 16);
        bytes[at] ^= flip;
        std::fs::write(&path, bytes).unwrap();

        let hit = ends.iter().skip(1).position(|end| (at as u64) < *end).unwrap();
        let reader = SegmentReader::open(&path).unwrap();
        let expected: Vec<_> = whole.iter().enumerate().filter(|(index, _)| *index != hit).map(|(_, text)| text.clone()).collect();
        prop_assert_eq!(contents(&reader), expected);
        prop_assert_eq!(reader.damages().len(), 1);
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), honest in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.seg");
        let mut file = Vec::new();
        if honest {
            file.extend_from_slice(b"STALLSEG\x01\0\0\0\0\0\0\0");
        }
        file.extend_from_slice(&bytes);
        std::fs::write(&path, file).unwrap();
        if let Ok(reader) = SegmentReader::open(&path) {
            for frame in reader.frames() {
                drop(reader.read(frame));
            }
        }
    }
}

/// A disk with room for so many bytes.
struct SmallDisk {
    bytes: Vec<u8>,
    room: usize,
}

impl SegmentSink for &mut SmallDisk {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let fits = bytes.len().min(self.room.saturating_sub(offset));
        self.bytes.resize(self.bytes.len().max(offset + fits), 0);
        self.bytes[offset..offset + fits].copy_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        // As on a failing file system: the truncated frame stays.
        Err(io::Error::other(format!("cannot cut to {length}")))
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_segment_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.seg");
    for room in (16..6000).step_by(97) {
        let mut disk = SmallDisk { bytes: Vec::new(), room };
        let mut stored = 0;
        let mut writer = SegmentWriter::over(&mut disk, &path).unwrap();
        for number in 0..40 {
            match writer.append_batch("run_fact", &facts(number, 30 - number / 2)) {
                Ok(()) => stored += 1,
                Err(CaptureError::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
                Err(other) => panic!("{other}"),
            }
        }
        std::fs::write(&path, &disk.bytes).unwrap();
        assert_eq!(SegmentReader::open(&path).unwrap().frames().len(), stored, "room for {room} bytes");
    }
}

/// Not a test of its own: the process that `a_killed_writer_loses_nothing_complete` starts and kills.
#[test]
fn writes_until_killed() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let mut writer = SegmentWriter::create(&path).unwrap();
    for number in 0.. {
        writer.append_batch("run_fact", &facts(number, 1 + number * 37 % 500)).unwrap();
        println!("ack {number}");
    }
}

#[test]
fn a_killed_writer_loses_nothing_complete() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0_u64..12 {
        let path = folder.path().join(format!("{round}.seg"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "segment::writes_until_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let output = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        while !path.exists() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(500 + round * 7919));
        child.kill().unwrap();
        child.wait().unwrap();
        let complete = output.join().unwrap();
        let acknowledged = complete.lines().filter(|line| line.starts_with("ack ")).count();

        let reader = SegmentReader::open(&path).unwrap();
        assert!(reader.frames().len() >= acknowledged);
        let mut seen = BTreeMap::new();
        for (number, frame) in reader.frames().iter().enumerate() {
            let SegmentFrame::Rows { batch, .. } = reader.read(frame).unwrap() else { panic!() };
            seen.insert(number, batch.columns() == facts(number, 1 + number * 37 % 500).columns());
        }
        assert!(seen.values().all(|whole| *whole));
    }
}
