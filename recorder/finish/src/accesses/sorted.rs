//! Sort of records in memory.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use stallmap_schema::capture::segment::FrameRef;
use stallmap_schema::id::{FunctionId, Pc};

use super::columns::{Columns, Key};
use super::record::{self, Record};
use super::{BATCH_ROWS, Converted, Source};
use crate::error::FinishError;

/// Records of some frames, sorted.
pub(super) struct Chunk {
    /// Each record's place in the order, and where its bytes begin.
    pub(super) order: Vec<(Key, usize)>,
    /// The records.
    pub(super) bytes: Vec<u8>,
}

impl Chunk {
    /// Reads frames and sorts their records. `first_sequence` is the position of the first record in its launch. It
    /// is moved behind the last.
    pub(super) fn read(
        source: &Source<'_>,
        frames: &[FrameRef],
        first_sequence: &mut u64,
        converted: &mut Converted,
    ) -> Self {
        let mut chunk = Self { order: Vec::new(), bytes: Vec::new() };
        let mut places = BTreeMap::new();
        for frame in frames {
            let Some(records) = super::records(source, frame) else {
                // How many requests a damaged frame held is not known: at least one.
                *converted.lost.entry("damaged frame").or_default() += 1;
                continue;
            };
            chunk.add(source, &records, first_sequence, &mut places, converted);
        }
        chunk.order.sort_unstable();
        chunk
    }

    fn add(
        &mut self,
        source: &Source<'_>,
        records: &[u8],
        sequence: &mut u64,
        places: &mut BTreeMap<u64, Option<(FunctionId, Pc)>>,
        converted: &mut Converted,
    ) {
        let base = self.bytes.len();
        for record in record::records(records) {
            let Ok((start, Record { request, .. })) = record else {
                *converted.lost.entry("malformed record").or_default() += 1;
                return self.bytes.extend_from_slice(records);
            };
            let place =
                places.entry(request.pc).or_insert_with(|| source.code.find(request.pc, source.ordinal));
            if let Some((function_id, pc)) = *place {
                let (block, warp) = (request.block, request.warp);
                let key = Key { function_id, pc: pc.0, block, warp, sequence: *sequence };
                self.order.push((key, base + start));
                converted.request_count += 1;
                converted.lane_access_count += u64::from(request.lane_mask.count_ones());
                converted.functions.insert(function_id);
            } else {
                *converted.lost.entry("code of the instruction is not known").or_default() += 1;
            }
            *sequence += 1;
        }
        self.bytes.extend_from_slice(records);
    }
}

pub(super) fn convert(
    source: &Source<'_>,
    emit: &mut dyn FnMut(RecordBatch) -> Result<(), FinishError>,
) -> Result<Converted, FinishError> {
    let mut converted = Converted::default();
    let chunk = Chunk::read(source, source.frames, &mut 0, &mut converted);
    let mut columns = Columns::default();
    for (key, start) in &chunk.order {
        if let Some((record, _)) = Record::read(&chunk.bytes[*start..]) {
            columns.append(key, &record);
        }
        if columns.len() >= BATCH_ROWS {
            emit(columns.take(source.kernel_id)?)?;
        }
    }
    if columns.len() > 0 {
        emit(columns.take(source.kernel_id)?)?;
    }
    Ok(converted)
}
