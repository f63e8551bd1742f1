//! Memory that pointers and handles of textures among a launch's parameters lead to, for accesses that no instrument observes.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::{UInt32Type, UInt64Type};
use datafusion::error::Result;
use stallmap_schema::id::{Address, AllocationId, KernelId, StorageId, TensorId};
use stallmap_schema::table::TableRow as _;

use super::derived::{OpenWord, PointerTensor};
use super::index::column;
use super::parameters;
use super::resolve::AddressResolver;

/// The columns of `texture` that are needed, in the order of the table.
pub(super) const TEXTURE: [&str; 3] = ["kernel_id", "parameter_offset", "address"];

/// Rows of `pointer_tensor` for the rows of `launch_parameter`, [`parameters::COLUMNS`] of them, and of `texture`.
pub(super) fn rows(
    batch: &RecordBatch,
    textures: &RecordBatch,
    mut resolver: AddressResolver,
) -> Result<RecordBatch> {
    let kernels = column::<UInt64Type>(textures, "kernel_id")?.values().iter();
    let places = kernels.zip(column::<UInt32Type>(textures, "parameter_offset")?.values());
    let mut addresses = BTreeMap::<(u64, u32), Vec<u64>>::new();
    for ((&kernel_id, &offset), &address) in places.zip(column::<UInt64Type>(textures, "address")?.values()) {
        addresses.entry((kernel_id, offset)).or_default().push(address);
    }
    let mut rows = Vec::new();
    for (kernel_id, words) in parameters::words(batch, |_| true)? {
        resolver.move_to(kernel_id);
        for (parameter_offset, word) in (0..).step_by(parameters::WORD_BYTES).zip(words) {
            let of_handle = addresses.get(&(kernel_id, parameter_offset)).map_or(&[][..], Vec::as_slice);
            for &address in [word].iter().chain(of_handle) {
                let target = resolver.target(address);
                let (storage, tensor, allocation) = AddressResolver::ids(resolver.index(), target);
                if storage.or(allocation).is_some() {
                    rows.push(PointerTensor {
                        kernel_id: KernelId(kernel_id),
                        parameter_offset,
                        address: Address(address),
                        target: OpenWord(target.text().into()),
                        storage_id: storage.map(StorageId),
                        tensor_id: tensor.map(TensorId),
                        allocation_id: allocation.map(AllocationId),
                    });
                }
            }
        }
    }
    Ok(PointerTensor::batch(rows)?)
}
