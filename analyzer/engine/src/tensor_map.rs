//! Tensors of a launch's tensor maps: derived from their geometry, since no instrument observes their copies.
//!
//! Elements spread evenly over the map are looked up by the rule for accesses. A target's share is its part of them.

use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{AllocationId, KernelId, StorageId, TensorId};
use stallmap_schema::table::TableRow as _;
use stallmap_schema::tables::launch::TensorMap;

use super::derived::{OpenWord, TensorMapTensor};
use super::resolve::{AddressResolver, AddressTarget};
use stallmap_tables::spread;

/// The columns of `tensor_map` that are needed, in the order of the table.
pub(super) const COLUMNS: [&str; 8] = [
    "kernel_id",
    "parameter_offset",
    "address",
    "sizes",
    "strides",
    "box_sizes",
    "element_type",
    "element_bytes",
];

/// Rows of `tensor_map_tensor` for the rows of `tensor_map`.
pub(super) fn rows(maps: &RecordBatch, mut resolver: AddressResolver) -> Result<RecordBatch> {
    let maps = TensorMap::read_all(maps)?;
    let rows = maps.iter().flat_map(|map| targets(map, &mut resolver)).collect::<Vec<_>>();
    Ok(TensorMapTensor::batch(rows)?)
}

fn targets(map: &TensorMap, resolver: &mut AddressResolver) -> Vec<TensorMapTensor> {
    resolver.move_to(map.kernel_id.0);
    let addresses = spread::addresses(map);
    let counted = counted(&addresses, resolver);
    let row = |(target, count): (AddressTarget, usize)| {
        let (storage, tensor, allocation) = AddressResolver::ids(resolver.index(), target);
        TensorMapTensor {
            kernel_id: KernelId(map.kernel_id.0),
            parameter_offset: map.parameter_offset,
            target: OpenWord(target.text().into()),
            storage_id: storage.map(StorageId),
            tensor_id: tensor.map(TensorId),
            allocation_id: allocation.map(AllocationId),
            share: count as f64 / addresses.len() as f64,
        }
    };
    counted.into_iter().map(row).collect()
}

/// The targets of addresses, with the number of addresses of each.
pub(super) fn counted(addresses: &[u64], resolver: &mut AddressResolver) -> Vec<(AddressTarget, usize)> {
    // Most maps lie in one tensor: the ends decide.
    if let Some((&lowest, &highest)) = addresses.iter().min().zip(addresses.iter().max())
        && let Some((target, _, end)) = resolver.around(lowest)
        && highest < end
    {
        return vec![(target, addresses.len())];
    }
    let mut counted: Vec<(AddressTarget, usize)> = Vec::new();
    for target in addresses.iter().map(|address| resolver.target(*address)) {
        match counted.iter_mut().find(|(known, _)| *known == target) {
            Some((_, count)) => *count += 1,
            None => counted.push((target, 1)),
        }
    }
    counted
}
