//! Tensors of a launch's tensor maps: derived from their geometry, since no instrument observes their copies.
//!
//! Elements spread evenly over the map are looked up by the rule for accesses. A target's share is its part of them.

use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{AllocationId, KernelId, StorageId, TensorId};
use stallmap_schema::table::Row as _;
use stallmap_schema::tables::launch::TensorMap;

use super::derived::{TensorMapTensor, Word};
use super::resolve::{Resolver, Target};

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

/// Elements looked up in each dimension of a map, by its rank: some thousand in all.
const SAMPLES: [u64; 5] = [1024, 32, 10, 6, 4];

/// Rows of `tensor_map_tensor` for the rows of `tensor_map`.
pub(super) fn rows(maps: &RecordBatch, mut resolver: Resolver) -> Result<RecordBatch> {
    let maps = TensorMap::read_all(maps)?;
    let rows = maps.iter().flat_map(|map| targets(map, &mut resolver)).collect::<Vec<_>>();
    Ok(TensorMapTensor::batch(rows)?)
}

fn targets(map: &TensorMap, resolver: &mut Resolver) -> Vec<TensorMapTensor> {
    resolver.move_to(map.kernel_id.0);
    let mut counted: Vec<(Target, u32)> = Vec::new();
    let (addresses, mut total) = (addresses(map), 0_u32);
    for address in addresses {
        let target = resolver.target(address);
        total += 1;
        match counted.iter_mut().find(|(known, _)| *known == target) {
            Some((_, count)) => *count += 1,
            None => counted.push((target, 1)),
        }
    }
    let row = |(target, count): (Target, u32)| {
        let (storage, tensor, allocation) = Resolver::ids(resolver.index(), target);
        TensorMapTensor {
            kernel_id: KernelId(map.kernel_id.0),
            parameter_offset: map.parameter_offset,
            target: Word(Target::WORDS[usize::from(target.word())].into()),
            storage_id: storage.map(StorageId),
            tensor_id: tensor.map(TensorId),
            allocation_id: allocation.map(AllocationId),
            share: f64::from(count) / f64::from(total),
        }
    };
    counted.into_iter().map(row).collect()
}

/// Addresses of elements that are spread evenly over a map, including its first.
fn addresses(map: &TensorMap) -> Vec<u64> {
    let first = map.address.0;
    let Some(count) = map.sizes.len().checked_sub(1).and_then(|rank| SAMPLES.get(rank)) else {
        return vec![first];
    };
    // The innermost dimension has no stride of its own: its elements are adjacent.
    let strides = map.element_bytes.map(u64::from).into_iter().chain(map.strides.iter().copied());
    let mut addresses = vec![first];
    for (&size, stride) in map.sizes.iter().zip(strides) {
        let taken = size.clamp(1, *count);
        // The middles of equal parts, or all elements if they are few.
        let places = (0..taken).map(|part| {
            let place = u128::from(2 * part + 1) * u128::from(size) / u128::from(2 * taken);
            u64::try_from(place).unwrap_or(0).wrapping_mul(stride)
        });
        addresses = places
            .flat_map(|distance| addresses.iter().map(move |address| address.wrapping_add(distance)))
            .collect();
    }
    addresses
}

#[cfg(test)]
mod tests {
    use stallmap_schema::id::Address;

    use super::*;

    fn map(sizes: &[u64], strides: &[u64]) -> TensorMap {
        TensorMap {
            kernel_id: KernelId(0),
            parameter_offset: 0,
            address: Address(1000),
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
            box_sizes: Vec::new(),
            element_type: None,
            element_bytes: Some(2),
        }
    }

    #[test]
    fn few_elements_are_all_looked_up() {
        let mut found = addresses(&map(&[3, 2], &[100]));
        found.sort_unstable();
        assert_eq!(found, [1000, 1002, 1004, 1100, 1102, 1104]);
        assert_eq!(addresses(&map(&[], &[])), [1000]);
        assert_eq!(addresses(&map(&[0], &[])), [1000]);
    }

    #[test]
    fn many_elements_are_spread_evenly() {
        let found = addresses(&map(&[1 << 20], &[]));
        assert_eq!(found.len(), 1024);
        assert_eq!((found[0], found[1]), (1000 + 1024, 1000 + 3 * 1024));
        assert!(addresses(&map(&[u64::MAX; 5], &[u64::MAX; 4])).len() <= 4096);
    }
}
