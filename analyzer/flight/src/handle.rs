//! A statement with the values of its parameters, as bytes: what tickets and prepared statements hold.
//!
//! It comes back from a client, which may have changed it. It is checked as if it came for the first time.

use arrow::array::RecordBatch;
use arrow::ipc::root_as_message;
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use bytes::Bytes;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use stallmap_serve::failure::Refusal;

/// Most bytes of the values. With its statement a handle must fit into a request.
pub(crate) const MOST_VALUE_BYTES: usize = 256 << 10;

/// A statement, maybe with values.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Handle {
    /// The statement.
    #[prost(string, tag = "1")]
    pub(crate) sql: String,
    /// The values, as messages of Flight with one row.
    #[prost(message, repeated, tag = "2")]
    pub(crate) values: Vec<FlightData>,
}

impl Handle {
    /// A statement without values.
    pub(crate) fn of(sql: String) -> Self {
        Self { sql, values: Vec::new() }
    }

    /// The handle of bytes that a client sent.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        Self::decode(bytes).map_err(|_| {
            let message = "the ticket or prepared statement is not one of this server";
            Refusal::message("26000", message, "ask for a new one with the statement")
        })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// A plan with the values of its parameters.
    pub(crate) async fn bound(&self, plan: LogicalPlan) -> Result<LogicalPlan, Refusal> {
        if self.values.is_empty() {
            return Ok(plan);
        }
        let fail = |error: String| {
            let message = format!("the values do not fit: {error}");
            Refusal::message("22000", message, "write a cast: CAST($1 AS BIGINT)")
        };
        let row = self.row().await?;
        let values = row.columns().iter().map(|column| ScalarValue::try_from_array(column, 0));
        let values: Vec<ScalarValue> =
            values.collect::<Result<_, _>>().map_err(|error| fail(error.strip_backtrace()))?;
        let bound = plan.with_param_values(ParamValues::from(values));
        bound.map_err(|error| fail(error.strip_backtrace()))
    }

    /// The row of values.
    async fn row(&self) -> Result<RecordBatch, Refusal> {
        if self.values.iter().any(is_packed) {
            // A few bytes can unpack to more than the server's memory.
            let hint = "send them without compression";
            return Err(Refusal::message("0A000", "the values are compressed, or cannot be read", hint));
        }
        let messages = stream::iter(self.values.clone()).map(Ok);
        let batches: Result<Vec<RecordBatch>, _> =
            FlightRecordBatchStream::new_from_flight_data(messages).try_collect().await;
        let wrong =
            |text: String| Refusal::message("22000", text, "bind one row with a column for each parameter");
        let batches = batches.map_err(|error| wrong(format!("the values cannot be read: {error}")))?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let row = batches.into_iter().find(|batch| batch.num_rows() == 1).filter(|_| rows == 1);
        row.ok_or_else(|| wrong(format!("there are {rows} rows of values")))
    }
}

/// True for a message whose rows are compressed, and for one that is none.
fn is_packed(data: &FlightData) -> bool {
    let Ok(message) = root_as_message(&data.data_header) else { return true };
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let rows = message.header_as_record_batch().or(dictionary);
    rows.is_some_and(|rows| rows.compression().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_return() {
        let handle = Handle::of("SELECT 1".to_owned());
        assert_eq!(Handle::read(&handle.bytes()).unwrap(), handle);
        assert_eq!(Handle::read(b"\x0a\xffSELECT").unwrap_err().state(), "26000");
    }
}
