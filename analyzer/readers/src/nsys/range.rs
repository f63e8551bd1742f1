//! Ranges of NVTX. Those of `torch.autograd.profiler.emit_nvtx` are ops: their names have numbers behind them.

use stallmap_schema::word::{LossKind, OpKind};

use crate::join::{phase, phase_of_range};
use crate::model::{OpDetails, TraceCall, TraceLosses, TraceOp};

use super::cell::SqlRow;

/// The columns of events. Those behind the domain hold payloads.
pub(super) const COLUMNS: [&str; 15] = [
    "start",
    "end",
    "eventType",
    "globalTid",
    "text",
    "textId",
    "endGlobalTid",
    "domainId",
    "uint64Value",
    "int64Value",
    "doubleValue",
    "uint32Value",
    "int32Value",
    "floatValue",
    "jsonText",
];
/// The place of the domain among them. That of ranges without a domain of their own is 0.
const DOMAIN: usize = 7;

/// Numbers and lists behind the name of an op. Lists are shapes and numbers of other ops.
const SEQUENCE: &str = "seq = ";
const NUMBER: &str = "op_id = ";
const LISTS: [&str; 2] = ["sizes = [", "input_op_ids = ["];

/// Counts the parts of a range that are left out.
pub(super) fn count(row: &SqlRow, losses: &mut TraceLosses) {
    let has_payload =
        (DOMAIN + 1..COLUMNS.len()).any(|column| row.real(column).is_some() || row.text(column).is_some());
    let has_domain = row.integer(DOMAIN).is_some_and(|domain| domain != 0);
    losses.add_many(LossKind::Source, "payloads of NVTX ranges", has_payload.into(), None);
    losses.add_many(LossKind::Source, "domains of NVTX ranges", has_domain.into(), None);
}

/// The op of a range.
pub(super) fn op(call: TraceCall, text: &str) -> TraceOp {
    let Some((name, sequence, record)) = torch_op(text) else {
        return TraceOp { phase: phase_of_range(text), ..TraceOp::for_call(call, OpKind::Region, text) };
    };
    let details = OpDetails { sequence, record, ..OpDetails::default() };
    TraceOp { phase: phase(name), ..TraceOp::for_call(call, OpKind::Torch, name) }.with_details(details)
}

/// Name, sequence number and number of an op. None for other ranges.
fn torch_op(text: &str) -> Option<(&str, Option<i64>, Option<i64>)> {
    let is_part = |rest: &str| {
        rest.starts_with(SEQUENCE)
            || rest.starts_with(NUMBER)
            || LISTS.iter().any(|list| rest.starts_with(list))
    };
    let begin = text.match_indices(", ").find(|(at, _)| text.get(at + 2..).is_some_and(is_part))?.0;
    let (name, parts) = text.split_at_checked(begin)?;
    let number = |key: &str| {
        let (_, rest) = parts.split_once(key)?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    Some((name, number(SEQUENCE), number(NUMBER)))
}

#[cfg(test)]
mod tests {
    use stallmap_schema::word::Phase;

    use super::*;

    #[test]
    fn names_of_ops_lose_their_numbers() {
        assert_eq!(
            torch_op("aten::mul, seq = 45328, op_id = 990726"),
            Some(("aten::mul", Some(45_328), Some(990_726)))
        );
        assert_eq!(torch_op("aten::to, op_id = 7, sizes = [[2, 3]]"), Some(("aten::to", None, Some(7))));
        assert_eq!(torch_op("f(a, b), seq = 1"), Some(("f(a, b)", Some(1), None)));
        assert_eq!((torch_op("layer, first"), torch_op("seq = 1")), (None, None));
        let call = TraceCall { thread: 0, begin_ns: 0, end_ns: 1 };
        let backward = op(call, "autograd::engine::evaluate_function: MulBackward0, seq = 3, op_id = 4");
        assert_eq!((backward.phase, backward.sequence()), (Phase::Backward, Some(3)));
    }
}
