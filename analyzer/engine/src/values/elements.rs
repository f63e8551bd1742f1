//! Numbers in memory: the element types of tensors.

use half::{bf16, f16};

/// A type of elements, by its layout in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementType {
    Float64,
    Float32,
    Float16,
    Bfloat16,
    /// Four bits of exponent, three of mantissa, no infinity.
    Float8E4m3,
    /// The upper half of a `Float16`.
    Float8E5m2,
    /// Two's complement of so many bytes.
    Signed(u8),
    Unsigned(u8),
}

impl ElementType {
    /// The type of PyTorch's name. Complex numbers have the type of their parts.
    pub(super) fn from_dtype(dtype: &str) -> Option<Self> {
        Some(match dtype {
            "float64" | "complex128" => Self::Float64,
            "float32" | "complex64" => Self::Float32,
            "float16" | "complex32" => Self::Float16,
            "bfloat16" => Self::Bfloat16,
            "float8_e4m3fn" => Self::Float8E4m3,
            "float8_e5m2" => Self::Float8E5m2,
            "int64" => Self::Signed(8),
            "int32" => Self::Signed(4),
            "int16" => Self::Signed(2),
            "int8" => Self::Signed(1),
            "uint64" => Self::Unsigned(8),
            "uint32" => Self::Unsigned(4),
            "uint16" => Self::Unsigned(2),
            "uint8" | "bool" => Self::Unsigned(1),
            _ => return None,
        })
    }

    /// Bytes of an element.
    pub(super) const fn bytes(self) -> u64 {
        match self {
            Self::Float64 => 8,
            Self::Float32 => 4,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float8E4m3 | Self::Float8E5m2 => 1,
            Self::Signed(bytes) | Self::Unsigned(bytes) => bytes as u64,
        }
    }

    /// The number of an element. Bytes are little endian.
    pub(super) fn value(self, bytes: &[u8]) -> f64 {
        match self {
            Self::Float64 => f64::from_le_bytes(first(bytes)),
            Self::Float32 => f32::from_le_bytes(first(bytes)).into(),
            Self::Float16 => f16::from_le_bytes(first(bytes)).to_f64(),
            Self::Bfloat16 => bf16::from_le_bytes(first(bytes)).to_f64(),
            Self::Float8E4m3 => of_e4m3(first::<1>(bytes)[0]),
            Self::Float8E5m2 => f16::from_le_bytes([0, first::<1>(bytes)[0]]).to_f64(),
            Self::Signed(1) => i8::from_le_bytes(first(bytes)).into(),
            Self::Signed(2) => i16::from_le_bytes(first(bytes)).into(),
            Self::Signed(4) => i32::from_le_bytes(first(bytes)).into(),
            Self::Signed(_) => i64::from_le_bytes(first(bytes)) as f64,
            Self::Unsigned(1) => first::<1>(bytes)[0].into(),
            Self::Unsigned(2) => u16::from_le_bytes(first(bytes)).into(),
            Self::Unsigned(4) => u32::from_le_bytes(first(bytes)).into(),
            Self::Unsigned(_) => u64::from_le_bytes(first(bytes)) as f64,
        }
    }
}

/// The first bytes. Zeros stand for missing ones.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn of_e4m3(bits: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 3 & 0xf), f64::from(bits & 7));
    let size = match (exponent, bits & 7) {
        (15, 7) => f64::NAN,
        (0, _) => mantissa / 8.0 * 2_f64.powi(-6),
        _ => (1.0 + mantissa / 8.0) * 2_f64.powi(exponent - 7),
    };
    if bits & 0x80 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dtype: &str, bytes: &[u8], value: f64) {
        let found = ElementType::from_dtype(dtype).unwrap().value(bytes);
        let is_equal = found.to_bits() == value.to_bits() || found.is_nan() && value.is_nan();
        assert!(is_equal, "{dtype} {bytes:?}: {found}");
    }

    #[test]
    fn numbers_are_those_of_their_types() {
        check("float64", &1.5_f64.to_le_bytes(), 1.5);
        check("float32", &(-0.25_f32).to_le_bytes(), -0.25);
        check("float16", &[0x00, 0x3c], 1.0);
        check("float16", &[0x00, 0x7c], f64::INFINITY);
        check("bfloat16", &[0x80, 0xbf], -1.0);
        check("bfloat16", &[0xc0, 0x7f], f64::NAN);
        // The largest and the smallest number of each 8-bit type, by the OCP specification.
        check("float8_e4m3fn", &[0x7e], 448.0);
        check("float8_e4m3fn", &[0x01], 2_f64.powi(-9));
        check("float8_e4m3fn", &[0xff], f64::NAN);
        check("float8_e5m2", &[0x7b], 57_344.0);
        check("float8_e5m2", &[0xfc], f64::NEG_INFINITY);
        check("int64", &(-3_i64).to_le_bytes(), -3.0);
        check("int8", &[0xff], -1.0);
        check("uint8", &[0xff], 255.0);
        check("bool", &[1], 1.0);
        assert_eq!(ElementType::from_dtype("complex64").map(ElementType::bytes), Some(4));
        assert_eq!(ElementType::from_dtype("quint4x2"), None);
    }
}
