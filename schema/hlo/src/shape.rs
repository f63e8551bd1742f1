//! Types of values: element type, sizes, and strides by the order of dimensions in memory.

use crate::wire::WireFields;

/// Maximum number of dimensions.
const MAX_DIMENSIONS: usize = 64;

/// The type of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Element type, as PyTorch and NumPy name it.
    pub dtype: &'static str,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// Elements in each dimension.
    pub sizes: Vec<i64>,
    /// Elements between neighbors in each dimension.
    pub strides: Vec<i64>,
}

impl ArrayShape {
    /// Reads a type. `None` for tuples, types of less than a byte, and what is not known.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (mut kind, mut sizes, mut order) = (0, Vec::new(), Vec::new());
        for (tag, value) in WireFields::new(bytes) {
            match tag {
                2 => kind = value.number(),
                3 => value.add_numbers(&mut sizes),
                5 => {
                    let layout = WireFields::new(value.bytes().unwrap_or(&[])).filter(|(tag, _)| *tag == 1);
                    layout.for_each(|(_, dimensions)| dimensions.add_numbers(&mut order));
                }
                _ => {}
            }
        }
        if sizes.len() > MAX_DIMENSIONS || order.len() != sizes.len() {
            return None;
        }
        let (dtype, element_bytes) = element_type(kind)?;
        let sizes: Vec<i64> =
            sizes.into_iter().map(|size| i64::try_from(size).ok()).collect::<Option<_>>()?;
        let mut strides = vec![0; sizes.len()];
        let mut stride = 1_i64;
        for dimension in order {
            let dimension = usize::try_from(dimension).ok()?;
            *strides.get_mut(dimension)? = stride;
            stride = stride.checked_mul((*sizes.get(dimension)?).max(1))?;
        }
        Some(Self { dtype, element_bytes, sizes, strides })
    }

    /// Bytes of the array.
    pub fn bytes(&self) -> u64 {
        let count =
            self.sizes.iter().try_fold(1_u64, |count, size| count.checked_mul(u64::try_from(*size).ok()?));
        count.and_then(|count| count.checked_mul(u64::from(self.element_bytes))).unwrap_or(0)
    }

    /// True if its dimensions lie in memory in their order.
    pub fn is_contiguous(&self) -> bool {
        let mut stride = 1;
        self.sizes.iter().zip(&self.strides).rev().all(|(size, found)| {
            let is_next = *size <= 1 || *found == stride;
            stride *= (*size).max(1);
            is_next
        })
    }
}

/// Name and bytes of XLA's element types.
fn element_type(kind: u64) -> Option<(&'static str, u32)> {
    let known = match kind {
        1 => ("bool", 1),
        2 => ("int8", 1),
        3 => ("int16", 2),
        4 => ("int32", 4),
        5 => ("int64", 8),
        6 => ("uint8", 1),
        7 => ("uint16", 2),
        8 => ("uint32", 4),
        9 => ("uint64", 8),
        10 => ("float16", 2),
        11 => ("float32", 4),
        12 => ("float64", 8),
        15 => ("complex64", 8),
        16 => ("bfloat16", 2),
        18 => ("complex128", 16),
        19 => ("float8_e5m2", 1),
        20 => ("float8_e4m3fn", 1),
        _ => return None,
    };
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_follow_the_order_in_memory() {
        // bfloat16[64, 128, 64] with the middle dimension innermost.
        let bytes = [16, 16, 26, 4, 64, 128, 1, 64, 42, 5, 10, 3, 1, 2, 0];
        let shape = ArrayShape::read(&bytes).expect("a shape");
        assert_eq!((shape.dtype, shape.bytes()), ("bfloat16", 2 * 64 * 128 * 64));
        assert_eq!(
            (shape.sizes.as_slice(), shape.strides.as_slice()),
            (&[64, 128, 64][..], &[8192, 1, 128][..])
        );
        assert!(!shape.is_contiguous());
        let rows = ArrayShape::read(&[16, 11, 26, 2, 4, 8, 42, 4, 10, 2, 1, 0]).expect("a shape");
        assert!(rows.is_contiguous());
    }

    #[test]
    fn damaged_types_are_none() {
        for damaged in [&[16, 11, 26, 1, 4][..], &[16, 13], &[16, 11, 26, 1, 4, 42, 3, 10, 1, 9]] {
            assert_eq!(ArrayShape::read(damaged), None, "{damaged:?}");
        }
    }
}
