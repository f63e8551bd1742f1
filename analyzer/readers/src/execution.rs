//! PyTorch's execution traces: ops with their nesting, schemas and autograd's numbers, without times.
//!
//! Both forms are read: up to 1.0.1 fields of a node, later ones attributes in a list.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::{Instrument, LossKind, OpKind, Phase};

use crate::model::{OpDetails, TraceCall, TraceLosses, TraceModel, TraceOp, TraceProcess};

/// Most nodes of a trace.
const MAX_NODES: usize = 50_000_000;
/// The begin of the names of processes and threads, which are nodes too.
const CONTAINER: &str = "[pytorch|profiler|execution_trace|";
/// PyTorch's numbers of scopes: a function of autograd, and a range of the user.
const BACKWARD_SCOPE: i64 = 1;
const USER_SCOPE: i64 = 7;

/// A node: an op, a range, a thread or the process.
#[derive(Debug, Default)]
struct TraceNode {
    id: Option<i64>,
    name: String,
    parent: Option<i64>,
    /// The number that PyTorch's profiler has for the same call.
    record: Option<i64>,
    forward: Option<i64>,
    sequence: Option<i64>,
    scope: Option<i64>,
    thread: Option<i64>,
    forward_thread: Option<i64>,
    schema: String,
    /// Lists of arguments and results that are not empty.
    values: u64,
}

/// A trace while it is read.
#[derive(Default)]
struct ExecutionReader {
    nodes: Vec<TraceNode>,
    facts: BTreeMap<String, String>,
    process: Option<u32>,
    losses: TraceLosses,
}

/// Reads a trace.
pub(crate) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<TraceModel> {
    let mut reading = ExecutionReader::default();
    json.document(|json| json.object(|json, key| reading.member(json, key)))?;
    let trace = reading.finish();
    if trace.ops.is_empty() {
        return Err(ReadError::message(format!("`{}` has no ops", json.path().display()))
            .hint("PyTorch writes them with `torch.profiler.ExecutionTraceObserver`".to_owned()));
    }
    Ok(trace)
}

impl ExecutionReader {
    fn member(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        match key {
            "nodes" => return json.records(|json| self.node(json)),
            "schema" => {
                let schema = json.scalar()?;
                self.facts.extend(schema.map(|schema| ("execution_trace.schema".to_owned(), schema)));
            }
            "pid" => self.process = json.integer()?.and_then(|number| u32::try_from(number).ok()),
            "time" | "start_ts" | "finish_ts" => return json.skip(),
            _ => return self.unknown(json, key),
        }
        Ok(())
    }

    fn unknown(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        self.losses.add(LossKind::Source, "keys of the imported file that are not read", Some(key));
        json.skip()
    }

    fn node(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        if self.nodes.len() >= MAX_NODES {
            let message = format!("the trace has more than {MAX_NODES} nodes");
            return Err(ReadError::message(message).hint("trace fewer steps".to_owned()));
        }
        let mut node = TraceNode::default();
        json.object(|json, key| match key {
            "attrs" => json.array(|json| self.attribute(json, &mut node)),
            _ => self.field(json, key, &mut node),
        })?;
        if node.id.is_none() {
            self.losses.add(LossKind::Op, "nodes without a number", None);
        } else {
            self.nodes.push(node);
        }
        Ok(())
    }

    /// An attribute of a newer trace: the fields of older ones by name.
    fn attribute(&mut self, json: &mut JsonStream<impl Read>, node: &mut TraceNode) -> ReadResult<()> {
        let (mut name, mut value) = (String::new(), None);
        json.object(|json, key| {
            match key {
                "name" => name = json.scalar()?.unwrap_or_default(),
                "value" => value = json.scalar()?,
                _ => json.skip()?,
            }
            Ok(())
        })?;
        let number = value.as_deref().and_then(crate::formats::decimal::integer);
        match name.as_str() {
            "rf_id" => node.record = number,
            "fw_parent" => node.forward = number,
            "seq_id" => node.sequence = number,
            "scope" => node.scope = number,
            "tid" => node.thread = number,
            "fw_tid" => node.forward_thread = number,
            "op_schema" => node.schema = value.unwrap_or_default(),
            "kernel_backend" | "kernel_file" => {}
            _ => {
                let reason = "attributes of the imported file that are not read";
                self.losses.add(LossKind::Source, reason, Some(&name));
            }
        }
        Ok(())
    }

    fn field(&mut self, json: &mut JsonStream<impl Read>, key: &str, node: &mut TraceNode) -> ReadResult<()> {
        match key {
            "id" => node.id = json.integer()?,
            "name" => node.name = json.scalar()?.unwrap_or_default(),
            "parent" | "ctrl_deps" => node.parent = json.integer()?,
            "rf_id" => node.record = json.integer()?,
            "fw_parent" => node.forward = json.integer()?,
            "seq_id" => node.sequence = json.integer()?,
            "scope" => node.scope = json.integer()?,
            "tid" => node.thread = json.integer()?,
            "fw_tid" => node.forward_thread = json.integer()?,
            "op_schema" => node.schema = json.scalar()?.unwrap_or_default(),
            "inputs" | "outputs" => node.values += values(json)?,
            "input_shapes" | "input_types" | "input_strides" | "output_shapes" | "output_types"
            | "output_strides" => json.skip()?,
            _ => self.unknown(json, key)?,
        }
        Ok(())
    }

    /// The ops in the order of their calls: a node's number is larger than those of the nodes around it.
    fn finish(mut self) -> TraceModel {
        self.nodes.sort_by_key(|node| node.id);
        self.nodes.dedup_by(|node, earlier| {
            let is_equal = node.id == earlier.id;
            if is_equal {
                self.losses.add(LossKind::Op, "nodes whose number another node has", None);
            }
            is_equal
        });
        let mut trace = TraceModel {
            tool: "execution trace",
            facts: self.facts,
            losses: self.losses,
            ..TraceModel::default()
        };
        let mut places: HashMap<i64, usize> = HashMap::new();
        let mut values = 0;
        for node in self.nodes.iter().filter(|node| !node.name.starts_with(CONTAINER)) {
            let op = op(node, &places, &trace.ops);
            places.extend(node.id.map(|id| (id, trace.ops.len())));
            trace.ops.push(op);
            values += node.values;
        }
        trace.losses.add_many(
            LossKind::Tensor,
            "arguments and results of ops: the trace has no addresses of tensors",
            values,
            None,
        );
        trace.processes.push(TraceProcess::with_number(self.process.unwrap_or(0), Instrument::Native));
        trace.losses.lacks("times of ops and the run, written as 0");
        for part in ["launches and kernels", "stall samples", "memory accesses", "Python stacks", "GPUs"] {
            trace.losses.lacks(part);
        }
        trace
    }
}

/// The number of elements of a list, or of the list `values` of newer traces.
fn values(json: &mut JsonStream<impl Read>) -> ReadResult<u64> {
    let mut count = 0;
    let mut list = |json: &mut JsonStream<_>| {
        json.array(|json| {
            count += 1;
            json.skip()
        })
    };
    if json.is_array()? {
        list(json)?;
    } else {
        json.object(|json, key| if key == "values" { list(json) } else { json.skip() })?;
    }
    Ok(count)
}

/// The op of a node. Nodes around it and its forward node come before it.
fn op(node: &TraceNode, places: &HashMap<i64, usize>, ops: &[TraceOp]) -> TraceOp {
    let place = |id: Option<i64>| id.and_then(|id| places.get(&id)).copied();
    let parent = place(node.parent);
    let outer = parent.and_then(|parent| ops.get(parent)).map(|op| op.phase);
    let phase = outer.filter(|phase| *phase != Phase::Forward).unwrap_or_else(|| phase(node));
    let call = TraceCall { thread: node.thread.unwrap_or(0).unsigned_abs(), begin_ns: 0, end_ns: 0 };
    let kind = if node.scope == Some(USER_SCOPE) { OpKind::Region } else { OpKind::Torch };
    let details = OpDetails {
        sequence: node.sequence.filter(|sequence| *sequence >= 0),
        forward: place(node.forward).filter(|_| phase == Phase::Backward).into(),
        record: node.record.filter(|record| *record > 0),
        ..OpDetails::default()
    };
    TraceOp { parent: parent.into(), phase, ..TraceOp::for_call(call, kind, overload(node)) }
        .with_details(details)
}

fn phase(node: &TraceNode) -> Phase {
    if node.scope == Some(BACKWARD_SCOPE) || node.forward_thread.is_some_and(|thread| thread != 0) {
        Phase::Backward
    } else if node.name.starts_with("Optimizer.step") {
        Phase::Optimizer
    } else {
        Phase::Forward
    }
}

/// The name with its overload, as the schema has it.
fn overload(node: &TraceNode) -> String {
    let (full, _) = node.schema.split_once('(').unwrap_or_default();
    let is_overload = full.strip_prefix(node.name.as_str()).is_some_and(|rest| rest.starts_with('.'));
    if is_overload { full.to_owned() } else { node.name.clone() }
}

/// Gives the ops of a profiler's trace the overloads of an execution trace of the same run.
///
/// The profiler numbers ops from one in each of its iterations, so equal numbers and names can be of different ones. Where
/// both sides have autograd's sequence numbers, and none is equal, nothing is joined.
pub(crate) fn join(mut trace: TraceModel, execution: TraceModel) -> TraceModel {
    let recorded = execution.ops.iter().filter_map(|op| Some((op.record()?, op)));
    let by_record: HashMap<i64, &TraceOp> = recorded.collect();
    let partner = |op: &TraceOp| {
        op.record().and_then(|record| by_record.get(&record)).copied().filter(|other| is_same(op, other))
    };
    let pairs: Vec<(usize, &TraceOp)> =
        trace.ops.iter().enumerate().filter_map(|(place, op)| Some((place, partner(op)?))).collect();
    let agrees = |(place, other): &(usize, &TraceOp)| {
        let own = trace.ops.get(*place).and_then(TraceOp::sequence);
        own.zip(other.sequence()).map(|(own, other)| own == other)
    };
    let (equal, different): (Vec<bool>, Vec<bool>) =
        pairs.iter().filter_map(agrees).partition(|equal| *equal);
    let is_other = equal.is_empty() && !different.is_empty();
    let pairs: Vec<(usize, &TraceOp)> =
        pairs.into_iter().filter(|pair| !is_other && agrees(pair) != Some(false)).collect();
    let matched = pairs.len() as u64;
    for (place, other) in pairs {
        let Some(op) = trace.ops.get_mut(place) else { continue };
        op.name.clone_from(&other.name);
        let details = op.details_mut();
        details.sequence = details.sequence.or(other.sequence());
    }
    let (ops, nodes) = (trace.ops.len() as u64, execution.ops.len() as u64);
    trace.facts.extend(execution.facts);
    trace.facts.insert("joined.execution_trace".to_owned(), format!("{matched} of {nodes} ops"));
    let losses = &mut trace.losses;
    let reason = "ops whose sequence number the execution trace has otherwise: it is of another iteration";
    losses.add_many(LossKind::Op, reason, different.len() as u64, None);
    let missing = nodes.saturating_sub(matched);
    losses.add_many(LossKind::Op, "ops of the execution trace that the trace does not have", missing, None);
    let missing = ops.saturating_sub(matched);
    losses.add_many(LossKind::Op, "ops that the execution trace does not have", missing, None);
    for (kind, reason, count, detail) in
        execution.losses.rows().filter(|(kind, ..)| *kind != LossKind::Source)
    {
        losses.add_many(kind, reason, count, detail);
    }
    trace
}

/// True if an op of an execution trace has the name of an op, with an overload or without.
fn is_same(op: &TraceOp, other: &TraceOp) -> bool {
    other.name.strip_prefix(&*op.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
