//! Explanation of empty results: the data that a capture lacks for a query, and how to record it.

use std::collections::BTreeSet;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use stallmap::session::Session;
use stallmap::tables::captured::TablePresence;
use stallmap::tables::derived::OF_ACCESSES;

use crate::output;

/// Part of a recording that may be missing.
struct AbsentPart {
    /// Tables that it fills. Derived tables follow.
    tables: &'static [&'static str],
    /// Name of the missing data.
    what: &'static str,
    /// Instructions to record it.
    advice: &'static str,
}

/// Objects of an imported file, which has accesses in no case.
const OBJECTS: AbsentPart =
    AbsentPart { tables: &["storage"], what: "no allocations", advice: "the imported file has none" };

/// The parts of a recording, most important first.
const PARTS: &[AbsentPart] = &[
    AbsentPart {
        tables: &["launch", "launch_run"],
        what: "no launches of kernels",
        advice: "record a program that launches kernels; `stallmap-record doctor` lists what can be recorded",
    },
    // Only tables about graphs have no rows without them.
    AbsentPart {
        tables: &["graph_launch"],
        what: "no launches of CUDA graphs",
        advice: "the program launched none, or an earlier release recorded it",
    },
    AbsentPart { tables: &["gpu_activity"], what: "no timeline", advice: "record without `--only`" },
    AbsentPart {
        tables: &["pc_sample"],
        what: "no samples of stalls",
        advice: "record without `--only accesses`; `stallmap-record doctor` checks whether stalls can be sampled",
    },
    AbsentPart {
        tables: &OF_ACCESSES,
        what: "no memory accesses",
        advice: "record without `--only samples`, and with the kernel among those of `--kernels`",
    },
    AbsentPart {
        tables: &["module", "function", "function_code", "instruction", "producer", "stall_producer"],
        what: "no machine code",
        advice: "record again: every recording contains cubins",
    },
    AbsentPart {
        tables: &["op", "op_tensor", "tensor", "storage"],
        what: "no ops and tensors",
        advice: "they are PyTorch's: record a program that uses it, without `--no-python`",
    },
    AbsentPart {
        tables: &["python_state", "python_frame"],
        what: "no Python stacks",
        advice: "record a Python program, without `--no-python`",
    },
    AbsentPart {
        tables: &["counter"],
        what: "no hardware counters",
        advice: "record with `--replay`, then measure with `stallmap-record replay`",
    },
    AbsentPart {
        tables: &["bundle", "bundle_page", "bundle_symbol", "bundle_content", "replay"],
        what: "no launches to replay",
        advice: "record with `--replay`",
    },
    AbsentPart {
        tables: &["ablation", "ablation_instruction"],
        what: "no experiments on launches",
        advice: "record with `--replay`, then measure with `stallmap-record replay --ablate`",
    },
    AbsentPart {
        tables: &["redirect"],
        what: "no measured costs of device memory",
        advice: "record with `--replay`, then measure with `stallmap-record replay --redirect`",
    },
    AbsentPart {
        tables: &["memcpy", "memset"],
        what: "no memcpys or memsets",
        advice: "the program made none, or was recorded with `--only samples`",
    },
    AbsentPart {
        tables: &["device_allocation"],
        what: "no allocations of the driver",
        advice: "record without `--only samples`",
    },
    AbsentPart {
        tables: &["tensor_map", "tensor_map_tensor", "launch_parameter"],
        what: "no tensor maps",
        advice: "only kernels that copy by tensor maps have them, on sm_90 and later",
    },
    AbsentPart {
        tables: &["texture"],
        what: "no textures and surfaces",
        advice: "the program launched no kernel with a handle of one, or an earlier release recorded it",
    },
];

/// A derived table whose rows are added to those of others: alone it leaves nothing without rows.
const ADDED: &str = "tensor_map_tensor";

/// Logs the reason for an empty result to standard error, if the capture causes it.
pub async fn note(session: &Session, sql: &str) {
    if let Some(why) = why(session, sql).await {
        output::note(format_args!("note: no rows: {why}"));
    }
}

/// The most important table that a capture lacks, of those that leave a statement without rows.
pub async fn why(session: &Session, sql: &str) -> Option<String> {
    if session.is_led() {
        return None;
    }
    let read = causes(session, sql).await?;
    let tables = session.tables();
    let lacks = |capture: &str, name: &str| {
        tables.iter().any(|table| {
            table.capture == capture && table.name == name && !table.is_derived && table.rows == 0
        })
    };
    let first = session.captures().first()?.name.as_str();
    let is_imported = is_imported(session).await;
    for part in is_imported.then_some(&OBJECTS).into_iter().chain(PARTS) {
        let of_part = read.iter().find(|(_, name)| part.tables.contains(&name.as_str()));
        let Some((capture, name)) = of_part else { continue };
        let capture = if capture.is_empty() { first } else { capture.as_str() };
        // A derived table is empty if its source table is.
        let source = part.tables.iter().find(|table| **table == name).filter(|_| is_captured(name));
        let source = source.or(part.tables.first())?;
        if !lacks(capture, source) {
            continue;
        }
        let is_missing = tables.iter().any(|table| {
            table.capture == capture && table.name == **source && table.presence == TablePresence::Missing
        });
        let of = if session.captures().len() > 1 { format!("`{capture}`") } else { "the capture".to_owned() };
        return Some(if is_missing {
            format!("{of} lacks the table `{source}`, which its recorder knew; `stallmap check` lists errors")
        } else {
            let advice = if is_imported { "the imported file has none" } else { part.advice };
            format!("{of} holds {} (`{source}` is empty); {advice}", part.what)
        });
    }
    unrecorded_space(session, sql).await
}

/// An address space that a statement selects, and that no recorded access is in. Few recordings have others than global
/// memory.
async fn unrecorded_space(session: &Session, sql: &str) -> Option<String> {
    if session.captures().len() > 1 {
        return None;
    }
    let plan = texts(session, &format!("EXPLAIN {sql}")).await?.concat();
    for space in ["shared", "local"].into_iter().filter(|space| selects(&plan, space)) {
        let of_space = format!("SELECT kind FROM memory_access WHERE space = '{space}' LIMIT 1");
        if texts(session, &of_space).await?.is_empty() {
            return Some(format!(
                "the capture holds no accesses to {space} memory: record with `--spaces global,{space}`"
            ));
        }
    }
    None
}

/// True if a filter of a plan selects an address space of accesses, such as `space@3 = shared`.
fn selects(plan: &str, space: &str) -> bool {
    let mut before: Vec<&str> = plan.split(&format!(" = {space}")).collect();
    before.pop();
    before.iter().any(|before| {
        let column = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
        // Instructions have a `memory_space`.
        column.ends_with("space@") && !column.ends_with("_space@")
    })
}

/// True if another tool made the first capture: options of recording do not change it.
async fn is_imported(session: &Session) -> bool {
    let sql = "SELECT value FROM run_option WHERE name = 'imported.tool' LIMIT 1";
    texts(session, sql).await.is_some_and(|tools| !tools.is_empty())
}

/// The last column of a statement's rows.
async fn texts(session: &Session, sql: &str) -> Option<Vec<String>> {
    let batches = session.sql(sql).await.ok()?.collect().await.ok()?;
    let mut texts = Vec::new();
    for batch in &batches {
        let column = cast(batch.columns().last()?, &DataType::Utf8).ok()?;
        texts.extend(column.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned()));
    }
    Some(texts)
}

/// The tables that leave a statement without rows. Derived tables are not followed to what they are made from, which may
/// leave it without rows too.
async fn causes(session: &Session, sql: &str) -> Option<BTreeSet<(String, String)>> {
    let causes = session.causes(sql).await.ok()?;
    if !causes.is_empty() {
        return Some(causes);
    }
    let sources = session.sources(sql).await.ok()?;
    let mut derived: BTreeSet<(String, String)> =
        sources.into_iter().filter(|(_, name)| !is_captured(name)).collect();
    if derived.iter().any(|(_, name)| name != ADDED) {
        derived.retain(|(_, name)| name != ADDED);
    }
    Some(derived)
}

fn is_captured(name: &str) -> bool {
    stallmap::tables::definition(name).is_some()
}
