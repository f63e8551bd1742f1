//! The most frequent distance from lane to lane of each instruction.

use std::cmp::Reverse;

use crate::memory::numbers::NumberMap;
use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{Int32Type, UInt8Type, UInt64Type};
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc};

use super::access::{InstructionColumns, values};
use super::analysis::{AccessAnalysis, ReadyRows};
use super::derived::InstructionStride;
use super::index::column;
use super::request::SECTOR_BYTES;

/// An instruction of a launch.
type StrideKey = (u64, u64, u32);

/// Requests with the same stride, which begin at the same offset in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct StrideCount {
    bytes: Option<u32>,
    access_bytes: u8,
    offset: Option<u64>,
}

/// Counts the strides of requests.
#[derive(Default)]
pub(super) struct StrideAnalysis {
    key: Option<StrideKey>,
    counts: NumberMap<StrideCount, u64>,
    /// The stride of the last requests, and their number.
    last: Option<(StrideCount, u64)>,
    requests: u64,
    misaligned: u64,
    ready: ReadyRows<InstructionStride>,
}

impl StrideCount {
    fn for_access(bytes: Option<i32>, access_bytes: u8, address: u64) -> Self {
        let bytes = bytes.map(i32::unsigned_abs);
        let offset = bytes.and_then(|bytes| address.checked_rem(bytes.into()));
        Self { bytes, access_bytes, offset }
    }

    /// Its rank among strides with as many requests: irregular ones are last.
    fn rank(self) -> (bool, Option<u32>, bool, Option<u64>, u8) {
        (self.bytes.is_none(), self.bytes, self.offset.is_none(), self.offset, self.access_bytes)
    }
}

impl StrideAnalysis {
    fn add(&mut self, stride: StrideCount, address: u64) {
        self.requests += 1;
        let is_unit = stride.bytes == Some(stride.access_bytes.into());
        self.misaligned += u64::from(is_unit && !address.is_multiple_of(SECTOR_BYTES));
        match &mut self.last {
            Some((last, count)) if *last == stride => *count += 1,
            _ => {
                self.count_last();
                self.last = Some((stride, 1));
            }
        }
    }

    fn count_last(&mut self) {
        if let Some((stride, count)) = self.last.take() {
            *self.counts.entry(stride).or_default() += count;
        }
    }

    /// Ends the open instruction.
    fn close(&mut self) {
        self.count_last();
        let Some((kernel_id, function_id, pc)) = self.key.take() else { return };
        let most = self.counts.drain().min_by_key(|(stride, count)| (Reverse(*count), stride.rank()));
        let (requests, misaligned) =
            (std::mem::take(&mut self.requests), std::mem::take(&mut self.misaligned));
        let Some((stride, _)) = most else { return };
        self.ready.push(InstructionStride {
            kernel_id: KernelId(kernel_id),
            function_id: FunctionId(function_id),
            pc: Pc(pc),
            stride_bytes: stride.bytes.and_then(|bytes| i32::try_from(bytes).ok()),
            access_bytes: stride.access_bytes,
            stride_offset: stride.offset,
            request_count: requests,
            misaligned_count: misaligned,
        });
    }
}

impl AccessAnalysis for StrideAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let instructions = InstructionColumns::new(batch)?;
        let kernel_id = values::<UInt64Type>(batch, "kernel_id")?;
        let address = values::<UInt64Type>(batch, "address")?;
        let access_bytes = values::<UInt8Type>(batch, "access_bytes")?;
        let strides = column::<Int32Type>(batch, "stride_bytes")?;
        for row in 0..batch.num_rows() {
            let key = (kernel_id[row], instructions.function_id[row], instructions.pc[row]);
            if self.key != Some(key) {
                self.close();
                self.key = Some(key);
            }
            let bytes = strides.is_valid(row).then(|| strides.value(row));
            self.add(StrideCount::for_access(bytes, access_bytes[row], address[row]), address[row]);
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.close();
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<(StrideCount, u64)>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
