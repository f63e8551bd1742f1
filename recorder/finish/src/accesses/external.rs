//! External sort of records: sorted runs in temporary files, merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use stallmap_schema::capture::request::{Request, SLOT_BYTES};
use stallmap_schema::id::FunctionId;

use super::columns::{Columns, Key};
use super::record::Record;
use super::sorted::Chunk;
use super::{BATCH_ROWS, Converted, SORT_BYTES, Source};
use crate::error::FinishError;

const KEY_BYTES: usize = 32;

pub(super) fn convert(
    source: &Source<'_>,
    emit: &mut dyn FnMut(RecordBatch) -> Result<(), FinishError>,
) -> Result<Converted, FinishError> {
    convert_in_runs(source, SORT_BYTES, emit)
}

pub(super) fn convert_in_runs(
    source: &Source<'_>,
    run_bytes: u64,
    emit: &mut dyn FnMut(RecordBatch) -> Result<(), FinishError>,
) -> Result<Converted, FinishError> {
    let temporary = |cause| FinishError::io("sort accesses in", source.scratch)(cause);
    let mut converted = Converted::default();
    let mut sequence = 0;
    let mut runs = Vec::new();
    let mut rest = source.frames;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |frame: &&stallmap_schema::capture::segment::FrameRef| {
            bytes += u64::from(frame.raw_bytes);
            bytes <= run_bytes
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (frames, after) = rest.split_at(count);
        let chunk = Chunk::read(source, frames, &mut sequence, &mut converted);
        runs.push(Run::write(&chunk, source.scratch).map_err(temporary)?);
        rest = after;
    }
    merge(source, runs, emit)?;
    Ok(converted)
}

fn merge(
    source: &Source<'_>,
    mut runs: Vec<Run>,
    emit: &mut dyn FnMut(RecordBatch) -> Result<(), FinishError>,
) -> Result<(), FinishError> {
    let temporary = |cause| FinishError::io("sort accesses in", source.scratch)(cause);
    let mut heads = BinaryHeap::new();
    for (index, run) in runs.iter_mut().enumerate() {
        heads.extend(run.next().map_err(temporary)?.map(|key| Reverse((key, index))));
    }
    let mut columns = Columns::default();
    while let Some(Reverse((key, index))) = heads.pop() {
        let run = &mut runs[index];
        if let Some((record, _)) = Record::read(&run.record) {
            columns.append(&key, &record);
        }
        if columns.len() >= BATCH_ROWS {
            emit(columns.take(source.kernel_id)?)?;
        }
        heads.extend(run.next().map_err(temporary)?.map(|key| Reverse((key, index))));
    }
    if columns.len() > 0 {
        emit(columns.take(source.kernel_id)?)?;
    }
    Ok(())
}

/// A sorted run in a file without a name, which the system removes in every case.
struct Run {
    file: BufReader<File>,
    left: usize,
    /// The record that [`Run::next`] read last.
    record: Vec<u8>,
}

impl Run {
    fn write(chunk: &Chunk, folder: &Path) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(folder)?);
        for (key, start) in &chunk.order {
            file.write_all(&key_bytes(key))?;
            if let Some((_, length)) = Record::read(&chunk.bytes[*start..]) {
                file.write_all(&chunk.bytes[*start..*start + length])?;
            }
        }
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let file = BufReader::with_capacity(1 << 18, file);
        Ok(Self { file, left: chunk.order.len(), record: Vec::new() })
    }

    /// Reads the next record. Its key, or `None` at the end.
    fn next(&mut self) -> io::Result<Option<Key>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut key = [0; KEY_BYTES];
        self.file.read_exact(&mut key)?;
        let mut header = [0; SLOT_BYTES];
        self.file.read_exact(&mut header)?;
        self.record.clear();
        self.record.extend_from_slice(&header);
        self.record.resize(Request::read(&header).slots() * SLOT_BYTES, 0);
        self.file.read_exact(&mut self.record[SLOT_BYTES..])?;
        Ok(Some(key_from(&key)))
    }
}

fn key_bytes(key: &Key) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    bytes[..8].copy_from_slice(&key.function_id.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&key.sequence.to_le_bytes());
    bytes[16..24].copy_from_slice(&key.block.to_le_bytes());
    bytes[24..28].copy_from_slice(&key.pc.to_le_bytes());
    bytes[28] = key.warp;
    bytes
}

fn key_from(bytes: &[u8; KEY_BYTES]) -> Key {
    let u64_at = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    Key {
        function_id: FunctionId(u64_at(0)),
        sequence: u64_at(8),
        block: u64_at(16),
        pc: bytes[24..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)),
        warp: bytes[28],
    }
}
