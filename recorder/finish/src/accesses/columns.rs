//! Builders of `memory_access` columns: filled directly, because there are many more of these rows than of all
//! others together.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Builder, ListBuilder, RecordBatch, StringArray, UInt8Array, UInt16Array,
    UInt32Array, UInt32Builder, UInt64Array,
};
use arrow::datatypes::UInt8Type;
use arrow::error::ArrowError;
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::table::Row;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{AccessKind, Space};

use super::record::Record;

/// Position of a request in its launch: the table's order behind `kernel_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) function_id: FunctionId,
    pub(super) pc: u32,
    pub(super) block: u64,
    pub(super) warp: u8,
    pub(super) sequence: u64,
}

/// Rows of one launch.
#[derive(Default)]
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
    /// Adds a request: one row, or more where its lanes lie too far apart.
    pub(super) fn append(&mut self, key: &Key, record: &Record<'_>) {
        record.for_each_piece(|piece| {
            self.function_id.push(key.function_id.0);
            self.pc.push(key.pc);
            self.block.push(key.block);
            self.warp.push(key.warp.into());
            self.sequence.push(key.sequence);
            self.kind.push(position(AccessKind::ALL, &record.kind()));
            self.space.push(position(Space::ALL, &record.space()));
            self.access_bytes.push(record.request.access_bytes);
            self.lane_mask.push(piece.lane_mask);
            self.address.push(piece.address);
            self.span_bytes.push(piece.span_bytes);
            self.stride_bytes.append_option(piece.stride_bytes);
            self.offsets.values().append_slice(&piece.offsets);
            self.offsets.append(piece.stride_bytes.is_none());
            self.offset_shift.push(piece.offset_shift);
        });
    }

    /// Rows so far.
    pub(super) fn len(&self) -> usize {
        self.pc.len()
    }

    /// The rows as a batch. The columns are empty afterwards.
    pub(super) fn take(&mut self, kernel_id: KernelId) -> Result<RecordBatch, ArrowError> {
        let mut rows = std::mem::take(self);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_value(kernel_id.0, rows.len())),
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

fn position<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|other| other == value).and_then(|index| u8::try_from(index).ok()).unwrap_or(0)
}

fn words(keys: Vec<u8>, values: impl Iterator<Item = &'static str>) -> Result<ArrayRef, ArrowError> {
    let values = Arc::new(StringArray::from_iter_values(values));
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(UInt8Array::from(keys), values)?))
}
