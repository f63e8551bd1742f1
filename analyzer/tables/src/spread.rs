//! Elements that stand for all of a tensor map.

use stallmap_schema::tables::launch::TensorMap;

/// Elements looked up in each dimension of a map, by its rank: some thousand in all.
const SAMPLES: [u64; 5] = [1024, 32, 10, 6, 4];

/// Addresses of elements that are spread evenly over a map, including its first.
pub fn addresses(map: &TensorMap) -> Vec<u64> {
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
        let offsets = (0..taken).map(|part| {
            let offset = u128::from(2 * part + 1) * u128::from(size) / u128::from(2 * taken);
            u64::try_from(offset).unwrap_or(0).wrapping_mul(stride)
        });
        addresses = offsets
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
            address: Address(1000),
            sizes: sizes.to_vec(),
            strides: strides.to_vec(),
            element_bytes: Some(2),
            ..TensorMap::default()
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
