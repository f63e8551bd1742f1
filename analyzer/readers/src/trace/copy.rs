//! Copies between devices.

/// The other device of a copy between two, which both sides may name.
pub(crate) fn peer(device: Option<i32>, sides: [Option<i32>; 2]) -> Option<i32> {
    sides.into_iter().flatten().find(|side| *side >= 0 && device.is_some_and(|device| *side != device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_between_two_devices_has_the_other_one() {
        assert_eq!(peer(Some(0), [Some(1), Some(0)]), Some(1));
        assert_eq!(peer(Some(1), [Some(1), Some(0)]), Some(0));
        assert_eq!((peer(Some(0), [Some(0), Some(0)]), peer(None, [Some(1), None])), (None, None));
        assert_eq!(peer(Some(0), [None, Some(-1)]), None);
    }
}
