//! The seven tools: their declarations, and their answers.

use serde_json::{Map, Value, json};
use stallmap::library::queries::CommandQuery;
use stallmap::library::queries::agent as queries;
use stallmap_console::args::diff::{DiffMetric, DiffPart};
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_lists::diff::compared;

use crate::mcp::answer::{CappedRows, MAX_ROWS, answer};
use crate::mcp::arguments::CallParameters;
use crate::mcp::catalog;
use crate::mcp::desk::{CaptureDesk, DeskCapture, ask, ask_for_agent};

/// Default rows of a list.
const FEW_ROWS: usize = 10;

/// A tool.
#[derive(Clone, Copy)]
pub(crate) struct McpTool {
    name: &'static str,
    description: &'static str,
    /// Arguments: name, JSON type, meaning.
    arguments: &'static [(&'static str, &'static str, &'static str)],
    /// The arguments that a call needs.
    needed: &'static [&'static str],
}

const CAPTURE: (&str, &str, &str) =
    ("capture", "string", "Name of the capture, as `captures` lists it [default: the first]");
const TOP: (&str, &str, &str) = ("top", "integer", "Rows, 1 to 200 [default: 10]");

const TOOLS: [McpTool; 7] = [
    McpTool {
        name: "captures",
        description: "List the open captures: coverage, losses, and questions that each cannot answer.",
        arguments: &[],
        needed: &[],
    },
    McpTool {
        name: "findings",
        description: "List inefficiencies, largest saving first: subject, location, advice, bounds of the saving in time \
                      per step and in parts of all samples, and a query with the evidence.",
        arguments: &[CAPTURE, TOP],
        needed: &[],
    },
    McpTool {
        name: "why",
        description: "List the costliest waits of a kernel, a Python line or a tensor, as sentences with function_id, pc, \
                      producer and tensor. Give one filter or several, each a part of the name.",
        arguments: &[
            CAPTURE,
            ("kernel", "string", "Part of the kernel's name, or its function_id as in `0x1a2b`"),
            ("line", "string", "Part of the Python line, such as train.py:31"),
            ("tensor", "string", "Part of the tensor's label"),
            TOP,
        ],
        needed: &[],
    },
    McpTool {
        name: "source",
        description: "List the hottest instructions of a kernel with source lines, stall reasons and producers.",
        arguments: &[CAPTURE, ("kernel", "string", "Part of the kernel's name, or its function_id"), TOP],
        needed: &["kernel"],
    },
    McpTool {
        name: "diff",
        description: "Compare two captures: changes with 95 % confidence intervals, significant ones first, and the facts \
                      that decide whether the captures are comparable. Every capture is compared with the first.",
        arguments: &[
            ("by", "string", "tensors, roles, lines, ops, kernels or instructions [default: kernels]"),
            ("metric", "string", "samples, memory, time, launches, sectors or bytes [default: samples]"),
            TOP,
        ],
        needed: &[],
    },
    McpTool {
        name: "schema",
        description: "Search tables, views, columns, functions and recipes with ready queries. Use it before `sql`.",
        arguments: &[CAPTURE, ("search", "string", "Words that an entry holds, such as `tensor samples`")],
        needed: &["search"],
    },
    McpTool {
        name: "sql",
        description: "Run one SELECT, WITH, EXPLAIN, DESCRIBE or SHOW statement of DataFusion SQL. With several captures, \
                      prefix names: a.launch, or every.launch for all.",
        arguments: &[
            ("query", "string", "The statement"),
            ("max_rows", "integer", "Rows, 1 to 200 [default: 200]"),
        ],
        needed: &["query"],
    },
];

/// A tool by name.
pub(crate) fn find(name: &str) -> Option<McpTool> {
    TOOLS.into_iter().find(|tool| tool.name == name)
}

/// The names of all tools.
pub(crate) fn names() -> String {
    TOOLS.map(|tool| tool.name).join(", ")
}

/// The declarations, as the protocol lists them.
pub(crate) fn listed() -> Vec<Value> {
    let tool = |tool: &McpTool| {
        let arguments = tool.arguments.iter();
        let properties: Map<String, Value> = arguments
            .map(|(name, kind, doc)| ((*name).to_owned(), json!({ "type": kind, "description": doc })))
            .collect();
        json!({
            "name": tool.name, "description": tool.description,
            "inputSchema": {
                "type": "object", "properties": properties, "required": tool.needed, "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
        })
    };
    TOOLS.iter().map(tool).collect()
}

/// The answer of a call.
pub(crate) async fn run(tool: McpTool, desk: &CaptureDesk, arguments: &CallParameters<'_>) -> Outcome<Value> {
    let known: Vec<&str> = tool.arguments.iter().map(|(name, ..)| *name).collect();
    arguments.check(&known)?;
    match tool.name {
        "captures" => Ok(captures(desk)),
        "findings" => {
            let capture = desk.capture(arguments.text("capture")?)?;
            listing(capture, arguments, queries::FINDINGS, &[], "id").await
        }
        "why" => why(desk, arguments).await,
        "source" => {
            let capture = desk.capture(arguments.text("capture")?)?;
            let kernel = kernel(arguments.needed("kernel")?);
            listing(capture, arguments, queries::CODE, &[kernel], "samples DESC, pc").await
        }
        "diff" => diff(desk, arguments).await,
        "schema" => {
            let capture = desk.capture(arguments.text("capture")?)?;
            let rows = catalog::search(&capture.session, arguments.needed("search")?)?;
            Ok(answer(&[capture], "SELECT * FROM information_schema.columns", rows, Map::new()))
        }
        _ => sql(desk, arguments).await,
    }
}

fn captures(desk: &CaptureDesk) -> Value {
    let all: Vec<&DeskCapture> = desk.captures().iter().collect();
    let mut rows = CappedRows::default();
    for capture in &all {
        rows.push(json!({ "name": capture.name, "file": capture.path, "cannot_answer": capture.cannot }));
    }
    answer(&all, "SELECT * FROM coverage", rows, Map::new())
}

async fn why(desk: &CaptureDesk, arguments: &CallParameters<'_>) -> Outcome<Value> {
    let capture = desk.capture(arguments.text("capture")?)?;
    let mut filters = Vec::new();
    filters.extend(arguments.text("kernel")?.map(kernel));
    filters.extend(arguments.text("line")?.map(|line| holds("line", line)));
    filters.extend(arguments.text("tensor")?.map(|tensor| holds("object", tensor)));
    if filters.is_empty() {
        return Err(CommandFailure::message(USAGE, "the filter is missing")
            .hint("give `kernel`, `line` or `tensor`, such as one of a finding".to_owned()));
    }
    listing(capture, arguments, queries::WAITS, &filters, "samples DESC, pc, producer_pc").await
}

/// The first rows of a query of the library, with filters.
async fn listing(
    capture: &DeskCapture,
    arguments: &CallParameters<'_>,
    query: CommandQuery,
    filters: &[String],
    order: &str,
) -> Outcome<Value> {
    let top = arguments.count("top", FEW_ROWS, MAX_ROWS)?;
    let condition =
        if filters.is_empty() { String::new() } else { format!("\nWHERE {}", filters.join(" AND ")) };
    let sql = format!(
        "SELECT * FROM (\n{}\n){condition}\nORDER BY {order}\nLIMIT {}",
        query.body().trim_end(),
        top + 1
    );
    let rows = ask(&capture.session, &sql, top).await?;
    let mut more = Map::new();
    if rows.is_empty() {
        let reason = stallmap_console::absent::why(&capture.session, &sql).await;
        let reason = reason.unwrap_or_else(|| {
            "no row matches. `sql` with `SELECT * FROM kernel_cost` lists kernels".to_owned()
        });
        more.insert("no_rows_because".to_owned(), Value::from(crate::mcp::answer::shown(&reason)));
    }
    Ok(answer(&[capture], &sql, rows, more))
}

/// A condition for a kernel: its function_id, or a part of its name.
fn kernel(text: &str) -> String {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.is_empty() && digits.len() <= 16);
    match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        Some(_) => format!("kernel_function_id = '{text}'"),
        None => format!("({} OR {})", holds("kernel", text), holds("short_kernel", text)),
    }
}

/// A condition: the column holds the text, in any case.
fn holds(column: &str, text: &str) -> String {
    format!("strpos(lower({column}), '{}') > 0", text.to_lowercase().replace('\'', "''"))
}

async fn diff(desk: &CaptureDesk, arguments: &CallParameters<'_>) -> Outcome<Value> {
    let session = desk.several()?;
    let part = word::<DiffPart>("by", arguments.text("by")?.unwrap_or("kernels"))?;
    let metric = word::<DiffMetric>("metric", arguments.text("metric")?.unwrap_or("samples"))?;
    let top = arguments.count("top", FEW_ROWS, MAX_ROWS)?;
    let compared = compared(session, part, metric, u32::try_from(top).unwrap_or(u32::MAX)).await?;
    let all: Vec<&DeskCapture> = desk.captures().iter().collect();
    let facts = CappedRows::from_batches(&compared.facts.rows, MAX_ROWS)?.into_values();
    let mut more = Map::from_iter([("comparability".to_owned(), Value::from(facts))]);
    match compared.part {
        Ok(part) => Ok(answer(&all, &part.sql, CappedRows::from_batches(&part.rows, MAX_ROWS)?, more)),
        Err(reason) => {
            more.insert("not_comparable".to_owned(), Value::from(crate::mcp::answer::shown(&reason)));
            Ok(answer(&all, &compared.facts.sql, CappedRows::default(), more))
        }
    }
}

/// A word of the command line.
fn word<T: clap::ValueEnum>(name: &str, text: &str) -> Outcome<T> {
    T::from_str(text, true).map_err(|_| {
        let words = T::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value);
        let words: Vec<String> = words.map(|word| word.get_name().to_owned()).collect();
        CommandFailure::message(USAGE, format!("`{name}` has no such value"))
            .hint(format!("values: {}", words.join(", ")))
    })
}

async fn sql(desk: &CaptureDesk, arguments: &CallParameters<'_>) -> Outcome<Value> {
    let query = arguments.needed("query")?;
    let most = arguments.count("max_rows", MAX_ROWS, MAX_ROWS)?;
    let session = desk.session()?;
    let rows = ask_for_agent(session, query, most).await?;
    let mut more = Map::new();
    if rows.is_empty() {
        let reason = stallmap_console::absent::why(session, query).await;
        more.extend(
            reason.map(|reason| {
                ("no_rows_because".to_owned(), Value::from(crate::mcp::answer::shown(&reason)))
            }),
        );
    }
    let all: Vec<&DeskCapture> = desk.captures().iter().collect();
    Ok(answer(&all, query, rows, more))
}
