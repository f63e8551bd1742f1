//! Elements of tensors as text.

/// The value of an element, by its type as PyTorch names it, or its bytes.
pub(super) fn element_text(dtype: Option<&str>, bytes: &[u8]) -> String {
    let known = match dtype {
        Some("float64") => array(bytes).map(|bytes| f64::from_le_bytes(bytes).to_string()),
        Some("float32") => array(bytes).map(|bytes| f32::from_le_bytes(bytes).to_string()),
        // The upper half of a float32.
        Some("bfloat16") => array(bytes).map(|[low, high]| f32::from_le_bytes([0, 0, low, high]).to_string()),
        Some("int64") => array(bytes).map(|bytes| i64::from_le_bytes(bytes).to_string()),
        Some("int32") => array(bytes).map(|bytes| i32::from_le_bytes(bytes).to_string()),
        Some("int16") => array(bytes).map(|bytes| i16::from_le_bytes(bytes).to_string()),
        Some("int8") => array(bytes).map(|bytes| i8::from_le_bytes(bytes).to_string()),
        Some("uint8" | "bool") => array(bytes).map(|bytes| u8::from_le_bytes(bytes).to_string()),
        _ => None,
    };
    known.unwrap_or_else(|| {
        let digits = bytes.iter().rev().map(|byte| format!("{byte:02x}"));
        format!("0x{}", digits.collect::<Vec<_>>().concat())
    })
}

/// The bytes as an array of the type's length.
fn array<const LENGTH: usize>(bytes: &[u8]) -> Option<[u8; LENGTH]> {
    bytes.try_into().ok()
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
