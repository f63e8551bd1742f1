//! The launch as JSON, for the Python program.

use std::collections::BTreeMap;

use serde_json::json;
use stallmap_schema::hash::hexadecimal;
use stallmap_sys::replayer::LaunchAttribute;

use crate::bundle::{ReplayBundle, SymbolPart};

/// The program, the same for every bundle.
pub(super) const PROGRAM: &str = include_str!("replay.py");

/// The launch. Bytes and names are hexadecimal: names are untrusted, and of any encoding.
pub(super) fn launch(bundle: &ReplayBundle, numbers: &BTreeMap<u64, u64>) -> String {
    let ReplayBundle { shape, parameters, .. } = bundle;
    let attributes: Vec<u8> = shape.attributes.iter().flat_map(|LaunchAttribute(bytes)| *bytes).collect();
    let symbol = |symbol: &SymbolPart| {
        json!({
            "name": hexadecimal(symbol.name.as_bytes()),
            "offset_bytes": symbol.offset_bytes,
            "size_bytes": symbol.size_bytes,
            "content": numbers.get(&symbol.content_id).copied().unwrap_or(0),
            "hash_after": symbol.hash_after.map(|hash| format!("{hash:016x}")),
        })
    };
    let allowed = i64::from(bundle.max_dynamic_shared_bytes.unwrap_or(0));
    let launch = json!({
        "kernel": hexadecimal(bundle.name.as_bytes()),
        "grid": shape.grid,
        "block": shape.block,
        "dynamic_shared_bytes": shape.dynamic_shared_bytes,
        "max_dynamic_shared_bytes": allowed.max(shape.dynamic_shared_bytes.into()),
        "shared_carveout": bundle.shared_carveout.unwrap_or(-1),
        "parameters": hexadecimal(parameters),
        "attributes": hexadecimal(&attributes),
        "attribute_count": shape.attributes.len(),
        "symbols": bundle.symbols.iter().map(symbol).collect::<Vec<_>>(),
    });
    format!("{launch:#}\n")
}
