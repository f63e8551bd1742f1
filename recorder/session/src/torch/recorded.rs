//! Rows from the Python side, as one type: tests can inspect them before they are sent.

use stallmap_schema::capture::recording::{OpEnd, StorageEvent, TensorName};
use stallmap_schema::id::OpId;
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::tensor::{Op, OpTensor, Tensor};

use crate::session;

/// Time of an event on both clocks, with its op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventMoment {
    /// Nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// Ordinal of the next launch.
    pub ordinal: u64,
    /// The op that was running on the thread.
    pub op_id: Option<OpId>,
}

impl EventMoment {
    /// The present, on this thread.
    pub fn now() -> Self {
        Self {
            time_ns: session::now_ns(),
            ordinal: session::next_ordinal(),
            op_id: crate::context::current_op(),
        }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedRow {
    /// An op began.
    Op(Op),
    /// An op ended.
    OpEnd(OpEnd),
    /// A tensor's part in an op.
    OpTensor(OpTensor),
    /// A tensor was seen for the first time.
    Tensor(Tensor),
    /// A tensor's role in the model became known.
    TensorName(TensorName),
    /// A storage was allocated or freed.
    Storage(StorageEvent),
    /// A frame was seen for the first time.
    Frame(PythonFrame),
    /// A frame's place in a stack that was seen for the first time.
    State(PythonState),
}

/// Sends rows to the session, in their order.
pub fn send(rows: Vec<RecordedRow>) {
    for row in rows {
        match row {
            RecordedRow::Op(row) => session::emit(row),
            RecordedRow::OpEnd(row) => session::emit(row),
            RecordedRow::OpTensor(row) => session::emit(row),
            RecordedRow::Tensor(row) => session::emit(row),
            RecordedRow::TensorName(row) => session::emit(row),
            RecordedRow::Storage(row) => session::emit(row),
            RecordedRow::Frame(row) => session::emit(row),
            RecordedRow::State(row) => session::emit(row),
        }
    }
}
