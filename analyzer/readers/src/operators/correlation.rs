//! Operator Profiler's `.corr.json`: the op of the n-th kernel of each name, from a run of its own.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::{Instrument, LossKind};

use super::{MAX_KERNELS, named_op, span_ops};
use crate::model::{TraceKernel, TraceModel, TraceProcess};

/// The tool's name of such a file.
pub(crate) const TOOL: &str = "operator profiler correlation";

/// Reads it. An entry is a kernel without times, in the order of the numbers.
pub(crate) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<TraceModel> {
    let mut trace = TraceModel { tool: TOOL, ..TraceModel::default() };
    let mut entries: Vec<(i64, String, Option<String>)> = Vec::new();
    let mut add = |json: &mut JsonStream<_>| {
        let (number, kernel, op) = entry(json)?;
        if entries.len() >= MAX_KERNELS {
            let message = format!("`{}` has more than {MAX_KERNELS} entries", json.path().display());
            return Err(ReadError::message(message));
        }
        match kernel.zip(number) {
            Some((kernel, number)) => entries.push((number, kernel, op)),
            None => trace.losses.add(LossKind::Source, "entries without a kernel or a number", None),
        }
        Ok(())
    };
    json.document(|json| {
        json.object(|json, key| if key == "entries" { json.records(&mut add) } else { json.skip() })
    })?;
    if entries.is_empty() {
        return Err(ReadError::message(format!("`{}` has no entries", json.path().display()))
            .hint("run the tool's correlation pass without another profiler".to_owned()));
    }
    entries.sort_by_key(|(number, ..)| *number);
    let mut ops: HashMap<String, usize> = HashMap::new();
    for (_, name, op) in entries {
        let op = op.map(|op| *ops.entry(op).or_insert_with_key(|op| named_op(&mut trace, op.clone(), None)));
        trace.kernels.push(TraceKernel { name: name.into(), device: -1, op, ..TraceKernel::default() });
    }
    trace.processes.push(TraceProcess::with_number(0, Instrument::Timeline));
    for part in ["times of kernels", "grids and blocks, written as 0", "hardware counters", "GPUs"] {
        trace.losses.lacks(part);
    }
    Ok(trace)
}

/// The number, the kernel and the op of an entry.
fn entry(json: &mut JsonStream<impl Read>) -> ReadResult<(Option<i64>, Option<String>, Option<String>)> {
    let (mut number, mut kernel, mut op) = (None, None, None);
    json.object(|json, key| {
        match key {
            "kernel_name" => kernel = json.scalar()?,
            "invocation" => number = json.integer()?,
            "op_name" => op = json.scalar()?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Ok((number, kernel, op))
}

/// Gives the kernels of a profile the ops of the n-th kernel of their name. Where a name has another number of kernels, the
/// two runs are not the same, and it gives nothing.
pub(crate) fn join(mut profile: TraceModel, correlation: &TraceModel) -> TraceModel {
    let mut entries: BTreeMap<String, Vec<Option<&str>>> = BTreeMap::new();
    for kernel in &correlation.kernels {
        let op = kernel.op.and_then(|op| correlation.ops.get(op)).map(|op| &*op.name);
        entries.entry(short(&kernel.name)).or_default().push(op);
    }
    let mut order: Vec<usize> = (0..profile.kernels.len()).collect();
    order.sort_by_key(|&place| profile.kernels.get(place).and_then(|kernel| kernel.time_ns));
    let mut kernels: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for place in order {
        if let Some(kernel) = profile.kernels.get(place) {
            kernels.entry(short(&kernel.name)).or_default().push(place);
        }
    }
    let (mut given, mut equal, mut other, mut differing) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut ops: HashMap<&str, usize> = HashMap::new();
    for (name, places) in kernels {
        let Some(found) = entries.get(&name).filter(|found| found.len() == places.len()) else {
            differing += places.len() as u64;
            continue;
        };
        for (place, op) in places.into_iter().zip(found) {
            let Some(op) = op else { continue };
            let own = profile.kernels.get(place).and_then(|kernel| profile.ops.get(kernel.op?));
            match own {
                Some(own) if bare(&own.name) == *op => equal += 1,
                Some(_) => other += 1,
                None => {
                    given += 1;
                    let op = *ops.entry(op).or_insert_with(|| named_op(&mut profile, (*op).to_owned(), None));
                    profile.kernels.get_mut(place).into_iter().for_each(|kernel| kernel.op = Some(op));
                }
            }
        }
    }
    let rate = format!(
        "{given} kernels got an op, {equal} had the same, {other} another, {differing} no equal number"
    );
    profile.facts.insert("joined.correlation".to_owned(), rate);
    let reason = "kernels whose name has another number of entries in the correlation file";
    profile.losses.add_many(LossKind::Source, reason, differing, None);
    span_ops(&mut profile);
    profile
}

/// The name of an op without the arguments that ranges have behind it.
fn bare(name: &str) -> &str {
    name.split(',').next().unwrap_or(name).trim_end()
}

/// A kernel's name as the tool shortens it: without result, namespaces, template arguments and parameters.
fn short(name: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let plain = plain.trim_end();
    let last = plain.rsplit("::").next().unwrap_or(plain);
    last.rsplit(' ').next().unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::{bare, short};

    #[test]
    fn names_are_short() {
        for (name, expected) in [
            ("void at::native::(anonymous namespace)::k<4, f<int>>(int, a::b*)", "k"),
            ("triton_poi_fused_0", "triton_poi_fused_0"),
            ("k(int*)", "k"),
            ("", ""),
        ] {
            assert_eq!(short(name), expected);
        }
        assert_eq!(bare("aten::mm, op_id = 7, sizes = [[2]]"), "aten::mm");
    }
}
