//! Tensors that the pointers among a launch's parameters point to: derived from their values, for copies that no
//! instrument observes.

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::error::Result;
use stallmap_schema::id::{AllocationId, KernelId, StorageId, TensorId};
use stallmap_schema::table::Row as _;

use super::derived::{PointerTensor, Word};
use super::index::{column, wrong};
use super::resolve::{Resolver, Target};

/// Bytes of a pointer, on which it lies too.
const POINTER_BYTES: usize = size_of::<u64>();

/// Rows of `pointer_tensor` for the rows of `launch_parameter`, [`super::parameters::COLUMNS`] of them.
pub(super) fn rows(parameters: &RecordBatch, mut resolver: Resolver) -> Result<RecordBatch> {
    let kernels = column::<UInt64Type>(parameters, "kernel_id")?;
    let bytes = parameters.column_by_name("bytes").and_then(|array| array.as_binary_opt::<i32>());
    let bytes = bytes.ok_or_else(|| wrong("bytes"))?;
    let mut rows = Vec::new();
    for (kernel_id, bytes) in kernels.values().iter().zip(bytes.iter()) {
        resolver.move_to(*kernel_id);
        for (place, word) in (0..).zip(bytes.unwrap_or_default().chunks_exact(POINTER_BYTES)) {
            let target = resolver.target(word.try_into().map_or(0, u64::from_le_bytes));
            rows.extend(row(*kernel_id, place, target, &resolver));
        }
    }
    Ok(PointerTensor::batch(rows)?)
}

/// The row of the word at a place. None if it points to no memory that is known.
fn row(kernel_id: u64, place: u32, target: Target, resolver: &Resolver) -> Option<PointerTensor> {
    let (storage, tensor, allocation) = Resolver::ids(resolver.index(), target);
    storage.or(allocation)?;
    Some(PointerTensor {
        kernel_id: KernelId(kernel_id),
        parameter_offset: place * 8,
        target: Word(Target::WORDS[usize::from(target.word())].into()),
        storage_id: storage.map(StorageId),
        tensor_id: tensor.map(TensorId),
        allocation_id: allocation.map(AllocationId),
    })
}
