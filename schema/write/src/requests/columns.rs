//! Builders of `memory_access` columns: filled directly, because there are many more of these rows than of all
//! others together.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, ListArray, NullBufferBuilder, RecordBatch, StringArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, UInt8Type};
use arrow::error::ArrowError;
use stallmap_schema::id::KernelId;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::word::{AccessKind, Space};

use super::chunk::{InstructionRef, RequestPattern, block_and_warp};

/// One row.
pub(super) struct RequestRow<'a> {
    pub(super) instruction: InstructionRef,
    /// Block and warp in one number.
    pub(super) warp: u64,
    pub(super) sequence: u64,
    pub(super) address: u64,
    pub(super) pattern: &'a RequestPattern,
    pub(super) offsets: &'a [u32],
}

/// Rows of launches.
#[derive(Default)]
pub(super) struct RequestColumns {
    kernel_id: Vec<u64>,
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
    stride_bytes: Vec<i32>,
    /// Rows with a stride, and those with offsets.
    has_stride: Vec<bool>,
    offsets: Vec<u32>,
    offset_ends: Vec<i32>,
    offset_shift: Vec<u8>,
}

impl RequestColumns {
    /// Makes room for so many rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.kernel_id.reserve(rows);
        self.function_id.reserve(rows);
        self.pc.reserve(rows);
        self.block.reserve(rows);
        self.warp.reserve(rows);
        self.sequence.reserve(rows);
        self.kind.reserve(rows);
        self.space.reserve(rows);
        self.access_bytes.reserve(rows);
        self.lane_mask.reserve(rows);
        self.address.reserve(rows);
        self.span_bytes.reserve(rows);
        self.stride_bytes.reserve(rows);
        self.has_stride.reserve(rows);
        self.offset_ends.reserve(rows);
        self.offset_shift.reserve(rows);
    }

    /// Adds rows of a launch.
    pub(super) fn append(&mut self, kernel_id: KernelId, lines: &[RequestRow<'_>]) {
        self.kernel_id.extend(repeat_n(kernel_id.0, lines.len()));
        for same in lines.chunk_by(|a, b| a.instruction == b.instruction) {
            let (function_id, pc) = same.first().map(|line| line.instruction).unwrap_or_default();
            self.function_id.extend(repeat_n(function_id.0, same.len()));
            self.pc.extend(repeat_n(pc.0, same.len()));
        }
        self.block.extend(lines.iter().map(|line| block_and_warp(line.warp).0));
        self.warp.extend(lines.iter().map(|line| block_and_warp(line.warp).1));
        self.sequence.extend(lines.iter().map(|line| line.sequence));
        self.address.extend(lines.iter().map(|line| line.address));
        self.kind.extend(lines.iter().map(|line| line.pattern.kind));
        self.space.extend(lines.iter().map(|line| line.pattern.space));
        self.access_bytes.extend(lines.iter().map(|line| line.pattern.access_bytes));
        self.lane_mask.extend(lines.iter().map(|line| line.pattern.lane_mask));
        self.span_bytes.extend(lines.iter().map(|line| line.pattern.span_bytes));
        self.stride_bytes.extend(lines.iter().map(|line| line.pattern.stride_bytes.unwrap_or(0)));
        self.has_stride.extend(lines.iter().map(|line| line.pattern.stride_bytes.is_some()));
        self.offset_shift.extend(lines.iter().map(|line| line.pattern.offset_shift));
        if lines.iter().all(|line| line.offsets.is_empty()) {
            self.offset_ends.extend(repeat_n(end(&self.offsets), lines.len()));
        } else {
            self.offset_ends.extend(lines.iter().map(|line| {
                self.offsets.extend_from_slice(line.offsets);
                end(&self.offsets)
            }));
        }
    }

    /// The rows as a batch.
    pub(super) fn finish(self) -> Result<RecordBatch, ArrowError> {
        let rows = self.kernel_id.len();
        let schema = MemoryAccess::TABLE.schema();
        let (mut strides, mut lists) = (NullBufferBuilder::new(rows), NullBufferBuilder::new(rows));
        for same in self.has_stride.chunk_by(|a, b| a == b) {
            let [has_stride, ..] = *same else { continue };
            let (some, none) =
                if has_stride { (&mut strides, &mut lists) } else { (&mut lists, &mut strides) };
            some.append_n_non_nulls(same.len());
            none.append_n_nulls(same.len());
        }
        let DataType::List(item) = schema.field_with_name("offsets")?.data_type() else {
            return Err(ArrowError::SchemaError("offsets are no list".to_owned()));
        };
        let ends = repeat_n(0, 1).chain(self.offset_ends).collect::<ScalarBuffer<i32>>();
        let offsets = ListArray::try_new(
            Arc::<Field>::clone(item),
            OffsetBuffer::new(ends),
            Arc::new(UInt32Array::from(self.offsets)),
            lists.finish(),
        )?;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(self.kernel_id)),
            Arc::new(UInt64Array::from(self.function_id)),
            Arc::new(UInt32Array::from(self.pc)),
            Arc::new(UInt64Array::from(self.block)),
            Arc::new(UInt16Array::from(self.warp)),
            Arc::new(UInt64Array::from(self.sequence)),
            words(self.kind, AccessKind::ALL.iter().map(|kind| kind.word()))?,
            words(self.space, Space::ALL.iter().map(|space| space.word()))?,
            Arc::new(UInt8Array::from(self.access_bytes)),
            Arc::new(UInt32Array::from(self.lane_mask)),
            Arc::new(UInt64Array::from(self.address)),
            Arc::new(UInt64Array::from(self.span_bytes)),
            Arc::new(Int32Array::new(self.stride_bytes.into(), strides.finish())),
            Arc::new(offsets),
            Arc::new(UInt8Array::from(self.offset_shift)),
        ];
        RecordBatch::try_new(schema, columns)
    }
}

fn end(offsets: &[u32]) -> i32 {
    i32::try_from(offsets.len()).unwrap_or(i32::MAX)
}

fn words(keys: Vec<u8>, values: impl Iterator<Item = &'static str>) -> Result<ArrayRef, ArrowError> {
    let values = Arc::new(StringArray::from_iter_values(values));
    Ok(Arc::new(DictionaryArray::<UInt8Type>::try_new(UInt8Array::from(keys), values)?))
}
