//! Comparison of pages with sums whose additions may have another order.

/// Largest distance of two numbers, relative to them.
const OF_ITSELF: f32 = 1e-4;
/// Largest distance, relative to the largest that differs: a sum that cancels out keeps the error of its parts.
const OF_LARGEST: f32 = 1e-5;

/// True if all float32 numbers of two pages are near each other. Those that differ must be normal numbers: counts,
/// which would be denormal ones, are exact. Read as wider or narrower numbers, pages with real differences would pass.
pub fn are_near(a: &[u8], b: &[u8]) -> bool {
    let words = || a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
    let pairs =
        || words().filter(|(a, b)| a != b).map(|(a, b)| (f32::from_le_bytes(*a), f32::from_le_bytes(*b)));
    let largest = pairs().map(|(a, b)| a.abs().max(b.abs())).fold(0.0, f32::max);
    let is_near = |(a, b): (f32, f32)| {
        let margin = (OF_ITSELF * a.abs().max(b.abs())).max(OF_LARGEST * largest);
        a.is_normal() && b.is_normal() && (a - b).abs() <= margin
    };
    a.len() == b.len() && pairs().all(is_near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_bits_are_near_and_more_is_not() {
        let page = |numbers: [f32; 4]| numbers.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
        let a = page([1.0, 100.0, 0.0, 5e-4]);
        assert!(are_near(&a, &page([1.000_01, 100.000_01, 0.0, 6e-4])));
        assert!(!are_near(&a, &page([1.01, 100.0, 0.0, 5e-4])));
        assert!(!are_near(&a, &page([1.0, 100.0, 1e-3, 5e-4])));
        assert!(!are_near(&a, &page([1.0, f32::NAN, 0.0, 5e-4])));
    }

    #[test]
    fn counts_are_exact() {
        let page = |counts: [u32; 3]| counts.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        assert!(!are_near(&page([7, 100_000, 0]), &page([7, 100_001, 0])));
    }
}
