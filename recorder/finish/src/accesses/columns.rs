//! Builders of `memory_access` columns: filled directly, because there are many more of these rows than of all
//! others together.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Builder, ListBuilder, RecordBatch, StringArray, UInt8Array, UInt16Array,
    UInt32Array, UInt32Builder, UInt64Array,
};
use arrow::datatypes::UInt8Type;
use arrow::error::ArrowError;
use stallmap_schema::id::{FunctionId, KernelId, Pc};
use stallmap_schema::table::Row;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{AccessKind, Space};

use super::order::Position;
use super::record::Record;

/// Rows of one launch.
pub(super) struct Columns {
    function_id: Vec<u64>,
    pc: Vec<u32>,
    block: Vec<u64>,
    warp: Vec<u16>,
    sequence: Vec<u64>,
    kind: Vec<u8>,
    space: Vec<u8>,
    access_bytes: Vec<u8>,
    lane_mask: Vec<u32>,
    address: Vec<u64>,
    span_bytes: Vec<u64>,
    stride_bytes: Int32Builder,
    offsets: ListBuilder<UInt32Builder>,
    offset_shift: Vec<u8>,
}

impl Columns {
    /// Columns for so many requests.
    pub(super) fn with_capacity(requests: usize) -> Self {
        Self {
            function_id: Vec::with_capacity(requests),
            pc: Vec::with_capacity(requests),
            block: Vec::with_capacity(requests),
            warp: Vec::with_capacity(requests),
            sequence: Vec::with_capacity(requests),
            kind: Vec::with_capacity(requests),
            space: Vec::with_capacity(requests),
            access_bytes: Vec::with_capacity(requests),
            lane_mask: Vec::with_capacity(requests),
            address: Vec::with_capacity(requests),
            span_bytes: Vec::with_capacity(requests),
            stride_bytes: Int32Builder::with_capacity(requests),
            offsets: ListBuilder::with_capacity(UInt32Builder::new(), requests),
            offset_shift: Vec::with_capacity(requests),
        }
    }

    /// Adds a request: one row, or more where its lanes lie too far apart.
    pub(super) fn append(
        &mut self,
        (function_id, pc): (FunctionId, Pc),
        position: Position,
        record: &Record<'_>,
    ) {
        record.for_each_piece(|piece| {
            self.function_id.push(function_id.0);
            self.pc.push(pc.0);
            self.block.push(position.block());
            self.warp.push(position.warp());
            self.sequence.push(position.sequence());
            self.kind.push(index(AccessKind::ALL, &record.kind()));
            self.space.push(index(Space::ALL, &record.space()));
            self.access_bytes.push(record.request.access_bytes);
            self.lane_mask.push(piece.lane_mask);
            self.address.push(piece.address);
            self.span_bytes.push(piece.span_bytes);
            self.stride_bytes.append_option(piece.stride_bytes);
            self.offsets.values().append_slice(piece.offsets);
            self.offsets.append(piece.stride_bytes.is_none());
            self.offset_shift.push(piece.offset_shift);
        });
    }

    /// The rows as a batch.
    pub(super) fn finish(self, kernel_id: KernelId) -> Result<RecordBatch, ArrowError> {
        let mut rows = self;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_value(kernel_id.0, rows.pc.len())),
            Arc::new(UInt64Array::from(rows.function_id)),
            Arc::new(UInt32Array::from(rows.pc)),
            Arc::new(UInt64Array::from(rows.block)),
            Arc::new(UInt16Array::from(rows.warp)),
            Arc::new(UInt64Array::from(rows.sequence)),
            words(rows.kind, AccessKind::ALL.iter().map(|kind| kind.word()))?,
            words(rows.space, Space::ALL.iter().map(|space| space.word()))?,
            Arc::new(UInt8Array::from(rows.access_bytes)),
            Arc::new(UInt32Array::from(rows.lane_mask)),
            Arc::new(UInt64Array::from(rows.address)),
            Arc::new(UInt64Array::from(rows.span_bytes)),
            Arc::new(rows.stride_bytes.finish()),
            Arc::new(rows.offsets.finish()),
            Arc::new(UInt8Array::from(rows.offset_shift)),
        ];
        RecordBatch::try_new(MemoryAccess::TABLE.schema(), columns)
    }
}

fn index<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|other| other == value).and_then(|index| u8::try_from(index).ok()).unwrap_or(0)
}

fn words(keys: Vec<u8>, values: impl Iterator<Item = &'static str>) -> Result<ArrayRef, ArrowError> {
    let values = Arc::new(StringArray::from_iter_values(values));
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(UInt8Array::from(keys), values)?))
}
