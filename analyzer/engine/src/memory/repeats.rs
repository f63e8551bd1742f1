//! Results for requests that occur again: other blocks, and other instructions, make them again.

/// Values of keys, each at a place that the key implies: a new key takes the place of another.
///
/// There are `SIZE` slots. Few of them stay in the fastest cache, where to look up a key takes less than to compute a value.
#[derive(Clone, Debug)]
pub struct KeyedValues<const N: usize, const SIZE: usize, T> {
    /// Empty before the first value.
    known: Vec<Option<([u64; N], T)>>,
}

impl<const N: usize, const SIZE: usize, T> Default for KeyedValues<N, SIZE, T> {
    fn default() -> Self {
        Self { known: Vec::new() }
    }
}

impl<const N: usize, const SIZE: usize, T: Copy> KeyedValues<N, SIZE, T> {
    /// The value of a key.
    pub fn get(&self, key: &[u64; N]) -> Option<T> {
        let known = self.known.get(Self::slot(key))?.as_ref();
        known.filter(|(known, _)| known == key).map(|(_, value)| *value)
    }

    /// Remembers a value.
    pub fn set(&mut self, key: [u64; N], value: T) {
        self.known.resize(SIZE, None);
        if let Some(known) = self.known.get_mut(Self::slot(&key)) {
            *known = Some((key, value));
        }
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.known.capacity() * size_of::<Option<([u64; N], T)>>()
    }

    fn slot(key: &[u64; N]) -> usize {
        let mixed = key
            .iter()
            .fold(0_u64, |mixed, part| (mixed.rotate_left(29) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        usize::try_from(mixed >> 40).unwrap_or(0) % SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_last_value_or_none() {
        let mut repeats = KeyedValues::<2, 4096, u64>::default();
        for key in 0..100_000 {
            assert_eq!(repeats.get(&[key, 7]), None);
            repeats.set([key, 7], key);
            assert_eq!((repeats.get(&[key, 7]), repeats.get(&[key, 8])), (Some(key), None));
            repeats.set([key, 7], key + 1);
            assert_eq!(repeats.get(&[key, 7]), Some(key + 1));
        }
        let found = (0..100_000).filter(|&key| repeats.get(&[key, 7]).is_some()).count();
        assert!(found > 2048 && found <= 4096, "{found}");
        repeats.clear();
        assert_eq!(repeats.get(&[99_999, 7]), None);
    }
}
