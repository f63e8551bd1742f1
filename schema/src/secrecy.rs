//! Secrecy of each column: the facts that it may give away about the user, the machine, the program.
//!
//! `stallmap redact` uses it. A column of text that is not listed here is [`Secrecy::Text`]: so a new one is redacted, until
//! it is declared to be of another class. A test fails for a column of bytes, and for one of addresses or hashes, that is not
//! listed.

use arrow::datatypes::DataType;

use crate::table::{ColumnDef, TableDef};

/// The secret that a column may give away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Secrecy {
    /// Nothing: numbers of the run, enum values, and texts that are declared to be safe, as those of public software. These
    /// are searched for paths and known secrets all the same.
    Open,
    /// A text in words of the recorder, with names among them.
    Text,
    /// A path: its folders name users, machines, projects.
    Path,
    /// The name of a machine.
    Host,
    /// The arguments of a program's command line.
    Arguments,
    /// A text that can hold anything, such as the text of an error.
    Detail,
    /// Source code.
    Source,
    /// The name of a function, a kernel, an operator or a region.
    Symbol,
    /// The name of a part of a model.
    Name,
    /// An address of memory.
    Address,
    /// A point in time.
    Time,
    /// Values that were passed to a kernel.
    Parameters,
    /// Attributes of a launch, with addresses among them.
    Attributes,
    /// Contents of memory.
    Contents,
    /// A hash of contents of memory.
    ContentHash,
    /// An identity that is a hash of names: [`crate::hash`].
    Identity,
}

/// Columns that say more than their type, or are of text or bytes.
const LISTED: &[(&str, &str, Secrecy)] = &[
    ("run", "program", Secrecy::Path),
    ("run", "arguments", Secrecy::Arguments),
    ("run", "working_directory", Secrecy::Path),
    ("run", "host", Secrecy::Host),
    ("run", "system", Secrecy::Open),
    ("run", "driver_version", Secrecy::Open),
    ("run", "instrument_version", Secrecy::Open),
    ("run", "python_version", Secrecy::Open),
    ("run", "torch_version", Secrecy::Open),
    ("run_option", "name", Secrecy::Open),
    // A path, or a text.
    ("run_option", "value", Secrecy::Path),
    ("device", "name", Secrecy::Open),
    ("device", "uuid", Secrecy::Host),
    ("module", "content_hash", Secrecy::Open),
    ("module", "file", Secrecy::Open),
    ("function", "function_id", Secrecy::Identity),
    ("function", "name", Secrecy::Symbol),
    ("function", "demangled_name", Secrecy::Symbol),
    ("launch", "function_id", Secrecy::Identity),
    ("launch", "pystates_hash", Secrecy::Identity),
    ("graph_launch", "pystates_hash", Secrecy::Identity),
    ("gpu_activity", "kernel_name", Secrecy::Symbol),
    ("launch_collective", "kind", Secrecy::Open),
    ("launch_collective", "call_name", Secrecy::Symbol),
    ("launch_collective", "dtype", Secrecy::Open),
    ("launch_collective", "group_name", Secrecy::Name),
    ("launch_collective", "group_description", Secrecy::Name),
    ("launch_collective", "group_ranks", Secrecy::Open),
    ("launch_parameter", "bytes", Secrecy::Parameters),
    ("tensor_map", "address", Secrecy::Address),
    ("python_frame", "frame_id", Secrecy::Identity),
    ("python_frame", "file", Secrecy::Path),
    ("python_frame", "original_file", Secrecy::Path),
    ("python_frame", "function", Secrecy::Symbol),
    ("python_state", "pystates_hash", Secrecy::Identity),
    ("python_state", "frame_id", Secrecy::Identity),
    ("source_line", "file", Secrecy::Path),
    ("source_line", "text", Secrecy::Source),
    ("op", "name", Secrecy::Symbol),
    ("op", "autograd_node", Secrecy::Symbol),
    ("op", "module_path", Secrecy::Name),
    ("op", "pystates_hash", Secrecy::Identity),
    ("storage", "address", Secrecy::Address),
    ("tensor", "address", Secrecy::Address),
    ("tensor", "dtype", Secrecy::Open),
    ("tensor", "name", Secrecy::Name),
    ("op_input", "dtype", Secrecy::Open),
    ("op_input", "value", Secrecy::Detail),
    ("device_allocation", "address", Secrecy::Address),
    ("memcpy", "source", Secrecy::Address),
    ("memcpy", "destination", Secrecy::Address),
    ("memset", "address", Secrecy::Address),
    ("memory_access", "address", Secrecy::Address),
    ("memory_access", "function_id", Secrecy::Identity),
    ("access_summary", "address", Secrecy::Address),
    ("access_summary", "block_address", Secrecy::Address),
    ("access_summary", "function_id", Secrecy::Identity),
    ("access_histogram", "function_id", Secrecy::Identity),
    ("pc_sample", "function_id", Secrecy::Identity),
    ("pc_sample", "stall_reason", Secrecy::Open),
    ("ablation", "block_address", Secrecy::Address),
    ("ablation_instruction", "function_id", Secrecy::Identity),
    ("bundle", "attributes", Secrecy::Attributes),
    ("bundle", "record_ns", Secrecy::Open),
    ("bundle_page", "address", Secrecy::Address),
    ("bundle_page", "hash_after", Secrecy::ContentHash),
    ("bundle_symbol", "symbol", Secrecy::Symbol),
    ("bundle_symbol", "hash_after", Secrecy::ContentHash),
    ("bundle_content", "hash", Secrecy::ContentHash),
    ("bundle_content", "bytes", Secrecy::Contents),
    ("replay", "detail", Secrecy::Detail),
    ("counter", "metric", Secrecy::Open),
    ("counter", "unit", Secrecy::Open),
    ("loss", "detail", Secrecy::Detail),
];

/// The secret that a column may give away. `None` if it is not listed yet.
pub fn secrecy(table: &TableDef, column: &ColumnDef) -> Option<Secrecy> {
    let listed = LISTED.iter().find(|(name, of, _)| *name == table.name && *of == column.name);
    if let Some((_, _, secrecy)) = listed {
        return Some(*secrecy);
    }
    match (column.data_type)() {
        DataType::Utf8 => Some(Secrecy::Text),
        DataType::Binary => None,
        DataType::UInt64 if column.name.contains("address") || column.name.contains("hash") => None,
        DataType::Int64 if column.name.ends_with("_ns") => Some(Secrecy::Time),
        _ => Some(Secrecy::Open),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;

    #[test]
    fn every_column_has_an_answer() {
        for table in tables::ALL {
            for column in table.columns {
                let name = format!("{}.{}", table.name, column.name);
                assert!(secrecy(table, column).is_some(), "what may `{name}` give away? Say so in LISTED");
            }
        }
    }

    #[test]
    fn a_text_is_not_open_unless_it_is_declared() {
        for table in tables::ALL {
            for column in table.columns {
                let is_listed = LISTED.iter().any(|(name, of, _)| *name == table.name && *of == column.name);
                if (column.data_type)() == DataType::Utf8 && !is_listed {
                    assert_eq!(secrecy(table, column), Some(Secrecy::Text), "{}.{}", table.name, column.name);
                }
            }
        }
    }

    #[test]
    fn every_listed_column_is_there() {
        for (table, column, _) in LISTED {
            let columns = tables::by_name(table).map(|table| table.columns).unwrap_or_default();
            assert!(columns.iter().any(|known| known.name == *column), "{table}.{column}");
        }
    }
}
