//! Elements of tensors as text.

/// The value of an element, by its type as PyTorch names it, or its bytes.
pub(super) fn element_text(dtype: Option<&str>, bytes: &[u8]) -> String {
    let word = bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    match (dtype, bytes.len()) {
        (Some("float64"), 8) => f64::from_bits(word).to_string(),
        (Some("float32"), 4) => f32::from_bits(word as u32).to_string(),
        (Some("bfloat16"), 2) => f32::from_bits((word as u32) << 16).to_string(),
        (Some("int64"), 8) => word.cast_signed().to_string(),
        (Some("int32"), 4) => (word as u32).cast_signed().to_string(),
        (Some("int16"), 2) => (word as u16).cast_signed().to_string(),
        (Some("int8"), 1) => (word as u8).cast_signed().to_string(),
        (Some("uint8" | "bool"), 1) => word.to_string(),
        _ => {
            let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            format!("0x{digits}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_their_types() {
        let text = |dtype, bytes: &[u8]| element_text(dtype, bytes);
        assert_eq!(text(Some("float32"), &1.5_f32.to_le_bytes()), "1.5");
        assert_eq!(text(Some("bfloat16"), &[0x80, 0xbf]), "-1");
        assert_eq!(text(Some("int64"), &(-2_i64).to_le_bytes()), "-2");
        assert_eq!(text(Some("float16"), &[0x00, 0x3c]), "0x3c00");
        assert_eq!(text(None, &[1, 2, 3, 4]), "0x04030201");
    }
}
