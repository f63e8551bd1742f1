//! Inputs of an op: shapes, types, strides and values in lists of equal length.

use std::io::Read;

use crate::error::ReadResult;
use crate::formats::json::JsonStream;

use crate::model::InputValue;

/// Bytes of a value that are carried over. Lists of numbers can be long.
const MAX_VALUE_BYTES: usize = 256;
/// Dimensions of a tensor: a capture holds no more.
const MAX_DIMENSIONS: usize = 64;

/// The extents of an input: those of a tensor, or of each tensor of a list.
type InputExtents = Vec<Vec<i64>>;

/// Inputs as they are written: each list has one entry per input, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct OpInputs {
    pub(super) sizes: Vec<InputExtents>,
    pub(super) strides: Vec<InputExtents>,
    pub(super) types: Vec<String>,
    pub(super) values: Vec<String>,
}

impl OpInputs {
    /// The inputs, and the number of values that are too long.
    pub(super) fn values(self) -> (Vec<InputValue>, u64) {
        let mut found = Vec::new();
        let mut long = 0;
        let count = self.sizes.len().max(self.types.len()).max(self.values.len());
        for (place, position) in (0..count).zip(0..) {
            let name = self.types.get(place).map(String::as_str).unwrap_or_default();
            let has_sizes = self.sizes.get(place).is_some_and(|sizes| !sizes.is_empty());
            // The last input stays without a value, too: it says how many there are.
            let value = self.values.get(place).filter(|value| !value.is_empty() || place + 1 == count);
            if has_sizes || is_tensor(name) {
                let empty = Vec::new();
                let sizes = self.sizes.get(place).unwrap_or(&empty);
                let strides = self.strides.get(place).unwrap_or(&empty);
                let dtype = (name != LIST && !name.is_empty()).then(|| dtype(name).0);
                // A tensor without dimensions has one element.
                let tensors = sizes.len().max(usize::from(name != LIST));
                found.extend((0..tensors).zip(0..).map(|(place, element)| InputValue {
                    position,
                    element,
                    dtype: dtype.clone(),
                    sizes: sizes.get(place).cloned().unwrap_or_default(),
                    strides: strides.get(place).cloned().unwrap_or_default(),
                    value: None,
                }));
            } else if let Some(value) = value {
                if value.len() > MAX_VALUE_BYTES {
                    long += 1;
                } else {
                    found.push(InputValue { position, value: Some(value.clone()), ..InputValue::default() });
                }
            }
        }
        (found, long)
    }
}

/// The type of lists of tensors.
const LIST: &str = "TensorList";

/// True for types of elements. Others are those of numbers, lists and texts, or of elements that have no name here.
fn is_tensor(name: &str) -> bool {
    name == LIST || dtype(name).1.is_some()
}

/// Reads shapes or strides: a list per tensor, and a list of lists per list of tensors.
pub(super) fn extents(json: &mut JsonStream<impl Read>) -> ReadResult<Vec<InputExtents>> {
    let mut found = Vec::new();
    json.array(|json| {
        let mut own = InputExtents::new();
        let mut numbers = Vec::new();
        json.array(|json| {
            if json.is_array()? {
                own.push(bounded(json.integers()?));
            } else {
                numbers.extend(json.integer()?);
            }
            Ok(())
        })?;
        if !numbers.is_empty() {
            own.push(bounded(numbers));
        }
        found.push(own);
        Ok(())
    })?;
    Ok(found)
}

fn bounded(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.truncate(MAX_DIMENSIONS);
    numbers
}

/// Reads texts. Other values are empty.
pub(super) fn texts(json: &mut JsonStream<impl Read>) -> ReadResult<Vec<String>> {
    let mut found = Vec::new();
    json.array(|json| {
        found.push(json.scalar()?.unwrap_or_default());
        Ok(())
    })?;
    Ok(found)
}

/// PyTorch's name of an element type, and its bytes: the profiler writes names of C++, and of the library. Names of Windows
/// have `struct` in front.
pub(super) fn dtype(name: &str) -> (String, Option<u32>) {
    let name = name.trim_start_matches("struct ").trim_start_matches("c10::");
    let (plain, bytes) = match name {
        "float" | "Float" => ("float32", 4),
        "double" | "Double" => ("float64", 8),
        "Half" => ("float16", 2),
        "BFloat16" => ("bfloat16", 2),
        "long int" | "long" | "long long" | "__int64" | "Long" => ("int64", 8),
        "int" | "Int" => ("int32", 4),
        "short int" | "short" | "Short" => ("int16", 2),
        "signed char" | "Char" => ("int8", 1),
        "unsigned char" | "Byte" => ("uint8", 1),
        "bool" | "Bool" => ("bool", 1),
        "complex<float>" | "ComplexFloat" => ("complex64", 8),
        "complex<double>" | "ComplexDouble" => ("complex128", 16),
        "Float8_e4m3fn" => ("float8_e4m3fn", 1),
        "Float8_e5m2" => ("float8_e5m2", 1),
        "Float8_e4m3fnuz" => ("float8_e4m3fnuz", 1),
        "Float8_e5m2fnuz" => ("float8_e5m2fnuz", 1),
        "Float8_e8m0fnu" => ("float8_e8m0fnu", 1),
        "Float4_e2m1fn_x2" => ("float4_e2m1fn_x2", 1),
        "unsigned int" | "UInt32" => ("uint32", 4),
        "unsigned short" | "UInt16" => ("uint16", 2),
        "unsigned long" | "unsigned __int64" | "UInt64" => ("uint64", 8),
        "qint8" => ("qint8", 1),
        "quint8" => ("quint8", 1),
        "qint32" => ("qint32", 4),
        other => return (other.to_owned(), None),
    };
    (plain.to_owned(), Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn json(text: &str) -> JsonStream<&[u8]> {
        JsonStream::new(text.as_bytes(), Path::new("x"))
    }

    #[test]
    fn lists_of_tensors_and_values_keep_their_positions() {
        let sizes = |text: &str| extents(&mut json(text)).unwrap_or_default();
        let words = |text: &str| texts(&mut json(text)).unwrap_or_default();
        let long = "1, ".repeat(100);
        let inputs = OpInputs {
            sizes: sizes("[[], [[2, 3], [4]], [], [], [8, 1]]"),
            strides: sizes("[[], [[3, 1], [1]], [], [], [1, 1]]"),
            types: words(r#"["c10::BFloat16", "TensorList", "Scalar", "", "long int"]"#),
            values: words(&format!(r#"["", "", "1.5", "{long}", ""]"#)),
        };
        let (found, long) = inputs.values();
        let shown: Vec<String> = found
            .iter()
            .map(|input| {
                let InputValue { position, element, dtype, sizes, strides, value } = input;
                format!("{position}.{element} {dtype:?} {sizes:?} {strides:?} {value:?}")
            })
            .collect();
        assert_eq!(
            shown,
            [
                r#"0.0 Some("bfloat16") [] [] None"#,
                "1.0 None [2, 3] [3, 1] None",
                "1.1 None [4] [1] None",
                r#"2.0 None [] [] Some("1.5")"#,
                r#"4.0 Some("int64") [8, 1] [1, 1] None"#,
            ]
        );
        assert_eq!(long, 1);
        let inputs = OpInputs {
            sizes: sizes("[[8], [], []]"),
            values: words(r#"["", "", ""]"#),
            types: words(r#"["int", "", ""]"#),
            ..OpInputs::default()
        };
        let (found, _) = inputs.values();
        let last = found.last().map(|input| (input.position, input.value.as_deref()));
        assert_eq!((found.len(), last), (2, Some((2, Some("")))));
    }

    #[test]
    fn inputs_with_sizes_are_tensors_of_any_type() {
        let inputs = OpInputs {
            sizes: extents(&mut json("[[4, 8], [8], [2], [3], []]")).unwrap_or_default(),
            types: texts(&mut json(r#"["struct c10::Half", "__int64", "c10::qint8", "Bits9", "Scalar"]"#))
                .unwrap_or_default(),
            ..OpInputs::default()
        };
        let (found, _) = inputs.values();
        let types: Vec<_> = found.iter().map(|input| (input.dtype.as_deref(), input.sizes.len())).collect();
        let known = [("float16", 2), ("int64", 1), ("qint8", 1), ("Bits9", 1)];
        assert_eq!(types, known.map(|(dtype, dimensions)| (Some(dtype), dimensions)));
        assert_eq!((dtype("struct c10::Half").1, dtype("__int64").1), (Some(2), Some(8)));
    }
}
