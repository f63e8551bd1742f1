//! Memory that pointers among a launch's parameters lead to, for copies that no instrument observes.

use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{Address, AllocationId, KernelId, StorageId, TensorId};
use stallmap_schema::table::TableRow as _;

use super::derived::{OpenWord, PointerTensor};
use super::parameters;
use super::resolve::AddressResolver;

/// Rows of `pointer_tensor` for the rows of `launch_parameter`, [`parameters::COLUMNS`] of them.
pub(super) fn rows(batch: &RecordBatch, mut resolver: AddressResolver) -> Result<RecordBatch> {
    let mut rows = Vec::new();
    for (kernel_id, words) in parameters::words(batch, |_| true)? {
        resolver.move_to(kernel_id);
        for (parameter_offset, word) in (0..).step_by(parameters::WORD_BYTES).zip(words) {
            let target = resolver.target(word);
            let (storage, tensor, allocation) = AddressResolver::ids(resolver.index(), target);
            if storage.or(allocation).is_some() {
                rows.push(PointerTensor {
                    kernel_id: KernelId(kernel_id),
                    parameter_offset,
                    address: Address(word),
                    target: OpenWord(target.text().into()),
                    storage_id: storage.map(StorageId),
                    tensor_id: tensor.map(TensorId),
                    allocation_id: allocation.map(AllocationId),
                });
            }
        }
    }
    Ok(PointerTensor::batch(rows)?)
}
