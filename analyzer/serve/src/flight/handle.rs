//! A statement with the values of its parameters, as bytes: what tickets and prepared statements hold.
//!
//! It comes back from a client, which may have changed it. It is checked as if it came for the first time.

use std::panic::AssertUnwindSafe;

use crate::failure::CodedFailure;
use arrow::array::RecordBatch;
use arrow::ipc::{Buffer, root_as_message};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use bytes::Bytes;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;

/// Most bytes of the values. With its statement a handle must fit into a message.
pub(crate) const MAX_VALUE_BYTES: usize = 256 << 10;

/// A statement, maybe with values.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatementHandle {
    /// The statement.
    #[prost(string, tag = "1")]
    pub(crate) sql: String,
    /// The values, as messages of Flight with one row.
    #[prost(message, repeated, tag = "2")]
    pub(crate) values: Vec<FlightData>,
}

impl StatementHandle {
    /// A statement without values.
    pub(crate) fn for_sql(sql: String) -> Self {
        Self { sql, values: Vec::new() }
    }

    /// The handle of bytes that a client sent.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, CodedFailure> {
        Self::decode(bytes).map_err(|_| {
            let message = "the ticket or prepared statement is not one of this server";
            CodedFailure::message("26000", message, "ask for a new one with the statement")
        })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// A plan with the values of its parameters.
    pub(crate) async fn bound(&self, plan: LogicalPlan) -> Result<LogicalPlan, CodedFailure> {
        if self.values.is_empty() {
            return Ok(plan);
        }
        let fail = |error: String| {
            let message = format!("the values do not fit: {error}");
            CodedFailure::message("22000", message, "write a cast: CAST($1 AS BIGINT)")
        };
        let row = self.row().await?;
        let values = row.columns().iter().map(|column| ScalarValue::try_from_array(column, 0));
        let values: Vec<ScalarValue> =
            values.collect::<Result<_, _>>().map_err(|error| fail(error.strip_backtrace()))?;
        let bound = plan.with_param_values(ParamValues::from(values));
        bound.map_err(|error| fail(error.strip_backtrace()))
    }

    /// The row of values.
    async fn row(&self) -> Result<RecordBatch, CodedFailure> {
        if !self.values.iter().all(is_sound) {
            // A few bytes can unpack to more than the server's memory.
            let hint = "send them whole and without compression";
            return Err(CodedFailure::message("0A000", "the values are compressed or cut", hint));
        }
        if !self.values.iter().all(is_short) {
            let message = format!("a list of the values is longer than {MAX_VALUE_BYTES}");
            return Err(CodedFailure::message("54000", message, "bind a shorter one"));
        }
        let messages = stream::iter(self.values.clone()).map(Ok);
        let batches =
            FlightRecordBatchStream::new_from_flight_data(messages).try_collect::<Vec<RecordBatch>>();
        // Arrow's reader panics on some messages.
        let batches = AssertUnwindSafe(batches).catch_unwind().await;
        let wrong = |text: String| {
            CodedFailure::message("22000", text, "bind one row with a column for each parameter")
        };
        let batches = batches.map_err(|_| wrong("the values cannot be read".to_owned()))?;
        let batches = batches.map_err(|error| wrong(format!("the values cannot be read: {error}")))?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let row = batches.into_iter().find(|batch| batch.num_rows() == 1).filter(|_| rows == 1);
        row.ok_or_else(|| wrong(format!("there are {rows} rows of values")))
    }
}

/// True for a message whose rows are uncompressed and whose buffers lie in its body. Arrow's reader panics on others.
fn is_sound(data: &FlightData) -> bool {
    let Ok(message) = root_as_message(&data.data_header) else { return false };
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let Some(rows) = message.header_as_record_batch().or(dictionary) else { return true };
    let is_inside = |buffer: &Buffer| {
        let begin = usize::try_from(buffer.offset()).ok();
        let end = begin
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(begin, length)| begin.checked_add(length));
        end.is_some_and(|end| end <= data.data_body.len())
    };
    rows.compression().is_none() && rows.buffers().into_iter().flatten().all(is_inside)
}

/// True for a message without a long column. Nulls take no bytes, so a body of none can state any number of them.
fn is_short(data: &FlightData) -> bool {
    let Ok(message) = root_as_message(&data.data_header) else { return true };
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let Some(rows) = message.header_as_record_batch().or(dictionary) else { return true };
    let is_short = |length: i64| usize::try_from(length).is_ok_and(|length| length <= MAX_VALUE_BYTES);
    is_short(rows.length()) && rows.nodes().into_iter().flatten().all(|node| is_short(node.length()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, ListArray, NullArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{DataType, Field};
    use arrow_flight::encode::FlightDataEncoderBuilder;

    use super::*;

    #[test]
    fn handles_return() {
        let handle = StatementHandle::for_sql("SELECT 1".to_owned());
        assert_eq!(StatementHandle::read(&handle.bytes()).unwrap(), handle);
        assert_eq!(StatementHandle::read(b"\x0a\xffSELECT").unwrap_err().state(), "26000");
    }

    #[tokio::test]
    async fn only_one_plain_row_is_taken() {
        let row = |values: Vec<i64>| {
            RecordBatch::try_from_iter([("$1", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap()
        };
        let handle = async |batches: Vec<RecordBatch>| {
            let messages = FlightDataEncoderBuilder::new().build(stream::iter(batches).map(Ok));
            StatementHandle { sql: String::new(), values: messages.try_collect().await.unwrap() }
        };
        assert_eq!(handle(vec![row(vec![7])]).await.row().await.unwrap(), row(vec![7]));
        for batches in [vec![row(vec![])], vec![row(vec![1, 2])], vec![row(vec![1]), row(vec![2])]] {
            assert_eq!(handle(batches).await.row().await.unwrap_err().state(), "22000");
        }
        for (length, state) in [(MAX_VALUE_BYTES, None), (MAX_VALUE_BYTES + 1, Some("54000"))] {
            let field = Arc::new(Field::new_list_field(DataType::Null, true));
            let offsets = OffsetBuffer::from_lengths([length]);
            let list: ArrayRef =
                Arc::new(ListArray::new(field, offsets, Arc::new(NullArray::new(length)), None));
            let row = handle(vec![RecordBatch::try_from_iter([("$1", list)]).unwrap()]).await.row().await;
            assert_eq!(row.err().map(|error| error.state()), state);
        }
        for (header, body) in [(None, Bytes::new()), (Some(Bytes::from_static(b"rows")), Bytes::new())] {
            let mut cut = handle(vec![row(vec![7])]).await;
            let last = cut.values.last_mut().unwrap();
            last.data_header = header.unwrap_or(last.data_header.clone());
            last.data_body = body;
            assert_eq!(cut.row().await.unwrap_err().state(), "0A000");
        }
        // Rows before their schema.
        let mut cut = handle(vec![row(vec![7])]).await;
        cut.values.remove(0);
        assert_eq!(cut.row().await.unwrap_err().state(), "22000");
    }
}
