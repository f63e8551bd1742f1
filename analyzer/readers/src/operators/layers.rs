//! Operator Profiler's `.part.json`: layers that stand for layers of the same form, as one flat object of names.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::LossKind;

use crate::model::TraceModel;

/// The tool's name of such a file.
pub(crate) const TOOL: &str = "operator profiler layers";
/// Most layers of a file.
const MAX_LAYERS: usize = 1_000_000;
/// The names of its facts.
const FACT: &str = "operator_profiler.layer.";

/// Reads it. None if it is not one object of texts.
pub(crate) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<Option<TraceModel>> {
    if json.is_array()? {
        return Ok(None);
    }
    let mut layers: BTreeMap<String, String> = BTreeMap::new();
    let mut is_flat = true;
    let mut member = |json: &mut JsonStream<_>, key: &str| {
        match json.text()? {
            Some(layer) => drop(layers.insert(format!("{FACT}{key}"), layer)),
            None => is_flat = false,
        }
        if layers.len() > MAX_LAYERS {
            let message = format!("`{}` has more than {MAX_LAYERS} layers", json.path().display());
            return Err(ReadError::message(message));
        }
        Ok(())
    };
    json.document(|json| json.object(&mut member))?;
    Ok(is_flat.then(|| TraceModel { tool: TOOL, facts: layers, ..TraceModel::default() }))
}

/// Names the layers of a manifest that stand for another: the tool copies their counters.
pub(crate) fn join(mut profile: TraceModel, layers: TraceModel) -> TraceModel {
    let copies: BTreeSet<&str> = layers.facts.keys().filter_map(|name| name.strip_prefix(FACT)).collect();
    let layer = |op: usize| {
        let op = profile.ops.get(op)?;
        op.parent.get().map_or(Some(op), |parent| profile.ops.get(parent))
    };
    let kernels = profile.kernels.iter().filter_map(|kernel| layer(kernel.op?));
    let count = kernels.filter(|layer| copies.contains(&*layer.name)).count() as u64;
    let reason = "kernels of layers whose counters the tool copies from another layer";
    profile.losses.add_many(LossKind::Source, reason, count, None);
    profile.facts.extend(layers.facts);
    profile
}
