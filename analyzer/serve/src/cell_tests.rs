use std::sync::Arc;

use arrow::array::{
    BinaryArray, Float64Array, Int64Array, ListArray, StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};

use super::*;

/// A value's bytes behind the header of its row.
fn written(array: ArrayRef, format: ValueFormat) -> Vec<u8> {
    let column = ColumnType::from_arrow(array.data_type());
    let schema = Schema::new(vec![Field::new("x", array.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
    let mut out = BytesMut::new();
    BatchCells::for_batch(&batch, &[(column, format)]).unwrap().put(0, &mut out);
    assert_eq!(u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize, out.len() - 1);
    out[11..].to_vec()
}

fn text(array: ArrayRef) -> String {
    String::from_utf8(written(array, ValueFormat::Text)).unwrap()
}

#[test]
fn texts_are_those_of_postgresql() {
    assert_eq!(text(Arc::new(UInt64Array::from(vec![u64::MAX]))), "18446744073709551615");
    assert_eq!(text(Arc::new(Float64Array::from(vec![f64::NEG_INFINITY]))), "-Infinity");
    assert_eq!(text(Arc::new(Float64Array::from(vec![1e300]))), "1e300");
    assert_eq!(text(Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]]))), "\\x00ff");
    let time = TimestampNanosecondArray::from(vec![1_700_000_000_123_456_789]);
    assert_eq!(text(Arc::new(time)), "2023-11-14 22:13:20.123456");
    let words = ListArray::new(
        Arc::new(Field::new_list_field(DataType::Utf8, true)),
        OffsetBuffer::from_lengths([3]),
        Arc::new(StringArray::from(vec![Some("a\"b"), None, Some("")])),
        None,
    );
    assert_eq!(text(Arc::new(words)), r#"{"a\"b",NULL,""}"#);
}

#[test]
fn numbers_of_64_bits_are_binary_numerics() {
    let numeric = |value: u64| written(Arc::new(UInt64Array::from(vec![value])), ValueFormat::Binary);
    assert_eq!(numeric(0), [0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(numeric(10_000), [0, 1, 0, 1, 0, 0, 0, 0, 0, 1]);
    // 1844 6744 0737 0955 1615
    let largest = [0, 5, 0, 4, 0, 0, 0, 0, 0x07, 0x34, 0x1a, 0x58, 0x02, 0xe1, 0x03, 0xbb, 0x06, 0x4f];
    assert_eq!(numeric(u64::MAX), largest);
    let mut out = BytesMut::new();
    put_numeric("-0.00125", &mut out);
    assert_eq!(&out[..], [0, 2, 0xff, 0xff, 0x40, 0, 0, 5, 0, 12, 0x13, 0x88]);
}

#[test]
fn a_null_has_no_bytes() {
    assert!(written(Arc::new(Int64Array::from(vec![None])), ValueFormat::Binary).is_empty());
}

#[test]
fn binary_values_are_big_endian() {
    assert_eq!(written(Arc::new(Int64Array::from(vec![-2])), ValueFormat::Binary), (-2_i64).to_be_bytes());
    let time = TimestampNanosecondArray::from(vec![946_684_801_000_000_000]);
    assert_eq!(written(Arc::new(time), ValueFormat::Binary), 1_000_000_i64.to_be_bytes());
}
