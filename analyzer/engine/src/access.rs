//! The columns of a batch of `memory_access` that the engine reads.

use std::ops::Deref;

use arrow::array::{Array, AsArray, Int32Array, ListArray, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use datafusion::error::Result;
use stallmap_schema::word::Space;

use super::index::{column, wrong};
use super::request::{ActiveLanes, WarpRequest};

/// The columns that every use of the engine reads, in the order of the table.
pub const COLUMNS: [&str; 9] = [
    "kernel_id",
    "space",
    "access_bytes",
    "lane_mask",
    "address",
    "span_bytes",
    "stride_bytes",
    "offsets",
    "offset_shift",
];

/// Columns that hold the addresses of single lanes. They are most of the bytes of irregular accesses. A request whose
/// lanes have one target does not need them.
pub const LANES: [&str; 4] = ["access_bytes", "stride_bytes", "offsets", "offset_shift"];

/// The bytes between the lowest and the highest address of each request of a batch of `memory_access`.
pub(super) struct RequestSpans<'a> {
    pub(super) kernel_id: &'a [u64],
    space: EnumColumn<'a>,
    /// Per enum value of the space, true for device memory.
    is_global: Vec<bool>,
    /// Per enum value of the space, true for shared memory.
    is_shared: Vec<bool>,
    pub(super) lane_mask: &'a [u32],
    pub(super) address: &'a [u64],
    pub(super) span_bytes: &'a [u64],
}

impl<'a> RequestSpans<'a> {
    /// The columns of a batch. An error names a column that is not as declared.
    pub(super) fn new(batch: &'a RecordBatch) -> Result<Self> {
        let space = EnumColumn::new(batch, "space")?;
        let is_global =
            |word: &str| matches!(Space::from_word(word), Some(Space::Global | Space::GlobalAsync));
        Ok(Self {
            kernel_id: values::<UInt64Type>(batch, "kernel_id")?,
            is_global: space.words.iter().map(|word| is_global(word)).collect(),
            is_shared: space.words.iter().map(|word| Space::from_word(word) == Some(Space::Shared)).collect(),
            space,
            lane_mask: values::<UInt32Type>(batch, "lane_mask")?,
            address: values::<UInt64Type>(batch, "address")?,
            span_bytes: values::<UInt64Type>(batch, "span_bytes")?,
        })
    }

    /// True for an access to device memory.
    #[inline]
    pub(super) fn is_global(&self, row: usize) -> bool {
        self.is_global.get(self.space.code(row)).copied().unwrap_or(false)
    }

    /// True for an access to shared memory.
    #[inline]
    pub(super) fn is_shared(&self, row: usize) -> bool {
        self.is_shared.get(self.space.code(row)).copied().unwrap_or(false)
    }
}

/// A batch of `memory_access` with the addresses of lanes.
pub(super) struct AccessBatch<'a> {
    pub(super) spans: RequestSpans<'a>,
    access_bytes: &'a [u8],
    stride_bytes: &'a Int32Array,
    offsets: &'a ListArray,
    distances: &'a [u32],
    offset_shift: &'a [u8],
}

impl<'a> Deref for AccessBatch<'a> {
    type Target = RequestSpans<'a>;

    fn deref(&self) -> &RequestSpans<'a> {
        &self.spans
    }
}

impl<'a> AccessBatch<'a> {
    /// The columns of a batch. An error names a column that is not as declared.
    pub(super) fn new(batch: &'a RecordBatch) -> Result<Self> {
        let offsets = batch.column_by_name("offsets").and_then(|array| array.as_list_opt::<i32>());
        let offsets = offsets.ok_or_else(|| wrong("offsets"))?;
        let distances = offsets.values().as_primitive_opt::<UInt32Type>().ok_or_else(|| wrong("offsets"))?;
        Ok(Self {
            spans: RequestSpans::new(batch)?,
            access_bytes: values::<UInt8Type>(batch, "access_bytes")?,
            stride_bytes: column::<Int32Type>(batch, "stride_bytes")?,
            offsets,
            distances: distances.values(),
            offset_shift: values::<UInt8Type>(batch, "offset_shift")?,
        })
    }

    /// The request of a row.
    #[inline]
    pub(super) fn request(&self, row: usize) -> WarpRequest<'a> {
        let lanes = if self.stride_bytes.is_valid(row) {
            ActiveLanes::Regular(self.stride_bytes.value(row))
        } else if self.offsets.is_valid(row) {
            let bounds = self.offsets.value_offsets();
            let bound = |place: usize| usize::try_from(bounds[place]).unwrap_or(0);
            ActiveLanes::Irregular(&self.distances[bound(row)..bound(row + 1)], self.offset_shift[row])
        } else {
            // Neither has lane addresses: only the lowest address is known.
            ActiveLanes::Regular(0)
        };
        WarpRequest {
            lane_mask: self.lane_mask[row],
            address: self.address[row],
            span_bytes: self.span_bytes[row],
            access_bytes: self.access_bytes[row].into(),
            lanes,
        }
    }
}

/// The columns that identify the instruction of a row.
pub(super) struct InstructionColumns<'a> {
    pub(super) function_id: &'a [u64],
    pub(super) pc: &'a [u32],
    pub(super) kind: EnumColumn<'a>,
    pub(super) space: EnumColumn<'a>,
}

impl<'a> InstructionColumns<'a> {
    /// The columns of a batch.
    pub(super) fn new(batch: &'a RecordBatch) -> Result<Self> {
        Ok(Self {
            function_id: values::<UInt64Type>(batch, "function_id")?,
            pc: values::<UInt32Type>(batch, "pc")?,
            kind: EnumColumn::new(batch, "kind")?,
            space: EnumColumn::new(batch, "space")?,
        })
    }
}

/// The columns that identify the block, the warp and the order of warp requests.
pub(super) struct WarpColumns<'a> {
    pub(super) block: &'a [u64],
    pub(super) warp: &'a [u16],
    pub(super) sequence: &'a [u64],
}

impl<'a> WarpColumns<'a> {
    /// The columns of a batch.
    pub(super) fn new(batch: &'a RecordBatch) -> Result<Self> {
        Ok(Self {
            block: values::<UInt64Type>(batch, "block")?,
            warp: values::<UInt16Type>(batch, "warp")?,
            sequence: values::<UInt64Type>(batch, "sequence")?,
        })
    }
}

/// A dictionary-encoded column of enum values.
pub(super) struct EnumColumn<'a> {
    codes: &'a [u8],
    pub(super) words: Vec<&'a str>,
}

impl<'a> EnumColumn<'a> {
    fn new(batch: &'a RecordBatch, name: &str) -> Result<Self> {
        let array = batch.column_by_name(name).and_then(|array| array.as_dictionary_opt::<UInt8Type>());
        let array = array.ok_or_else(|| wrong(name))?;
        let words = array.values().as_string_opt::<i32>().ok_or_else(|| wrong(name))?;
        Ok(Self {
            codes: array.keys().values(),
            words: words.iter().map(Option::unwrap_or_default).collect(),
        })
    }

    /// The position of a row's value in `words`.
    #[inline]
    pub(super) fn code(&self, row: usize) -> usize {
        self.codes[row].into()
    }
}

/// The values of a column without nulls.
pub(super) fn values<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a [T::Native]> {
    Ok(column::<T>(batch, name)?.values())
}
