//! Secrecy of each column: the facts that it may give away about the user, the machine, the program.
//!
//! `stallmap redact` uses it. A column of text that is not listed here is [`ColumnSecrecy::Text`]: so a new one is redacted, until
//! it is declared to be of another class. A test fails for a column of bytes, and for one of addresses or hashes, that is not
//! listed.

use arrow::datatypes::DataType;

use crate::table::{ColumnDef, TableDef};

/// The secret that a column may give away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnSecrecy {
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
const LISTED: &[(&str, &str, ColumnSecrecy)] = &[
    ("run", "program", ColumnSecrecy::Path),
    ("run", "arguments", ColumnSecrecy::Arguments),
    ("run", "working_directory", ColumnSecrecy::Path),
    ("run", "host", ColumnSecrecy::Host),
    ("run", "system", ColumnSecrecy::Open),
    ("run", "driver_version", ColumnSecrecy::Open),
    ("run", "instrument_version", ColumnSecrecy::Open),
    ("run", "python_version", ColumnSecrecy::Open),
    ("run", "torch_version", ColumnSecrecy::Open),
    ("run_option", "name", ColumnSecrecy::Open),
    // A path, or a text.
    ("run_option", "value", ColumnSecrecy::Path),
    ("device", "name", ColumnSecrecy::Open),
    ("device", "uuid", ColumnSecrecy::Host),
    ("module", "content_hash", ColumnSecrecy::Open),
    ("module", "file", ColumnSecrecy::Open),
    ("function", "function_id", ColumnSecrecy::Identity),
    ("function", "name", ColumnSecrecy::Symbol),
    ("function", "demangled_name", ColumnSecrecy::Symbol),
    ("launch", "function_id", ColumnSecrecy::Identity),
    ("launch", "pystates_hash", ColumnSecrecy::Identity),
    ("launch", "native_stack", ColumnSecrecy::Identity),
    ("graph_launch", "pystates_hash", ColumnSecrecy::Identity),
    ("gpu_activity", "kernel_name", ColumnSecrecy::Symbol),
    ("launch_collective", "kind", ColumnSecrecy::Open),
    ("launch_collective", "call_name", ColumnSecrecy::Symbol),
    ("launch_collective", "dtype", ColumnSecrecy::Open),
    ("launch_collective", "group_name", ColumnSecrecy::Name),
    ("launch_collective", "group_description", ColumnSecrecy::Name),
    ("launch_collective", "group_ranks", ColumnSecrecy::Open),
    ("launch_parameter", "bytes", ColumnSecrecy::Parameters),
    ("tensor_map", "address", ColumnSecrecy::Address),
    ("texture", "address", ColumnSecrecy::Address),
    ("python_frame", "frame_id", ColumnSecrecy::Identity),
    ("python_frame", "file", ColumnSecrecy::Path),
    ("python_frame", "original_file", ColumnSecrecy::Path),
    ("python_frame", "function", ColumnSecrecy::Symbol),
    ("python_state", "pystates_hash", ColumnSecrecy::Identity),
    ("python_state", "frame_id", ColumnSecrecy::Identity),
    ("source_line", "file", ColumnSecrecy::Path),
    ("source_line", "text", ColumnSecrecy::Source),
    ("native_frame", "native_frame_id", ColumnSecrecy::Identity),
    ("native_frame", "library", ColumnSecrecy::Path),
    ("native_frame", "build_id", ColumnSecrecy::Symbol),
    ("native_frame", "function", ColumnSecrecy::Symbol),
    ("native_frame", "file", ColumnSecrecy::Path),
    ("native_frame", "missing", ColumnSecrecy::Open),
    ("native_state", "native_stack", ColumnSecrecy::Identity),
    ("native_state", "native_frame_id", ColumnSecrecy::Identity),
    ("compiled_origin", "frame_id", ColumnSecrecy::Identity),
    ("compiled_origin", "op", ColumnSecrecy::Symbol),
    ("compiled_origin", "forward_op", ColumnSecrecy::Symbol),
    ("compiled_origin", "module_path", ColumnSecrecy::Name),
    ("compiled_origin", "pystates_hash", ColumnSecrecy::Identity),
    ("triton_kernel", "name", ColumnSecrecy::Symbol),
    ("triton_kernel", "file", ColumnSecrecy::Path),
    ("triton_kernel", "signature", ColumnSecrecy::Symbol),
    ("triton_kernel", "configuration", ColumnSecrecy::Symbol),
    ("op", "name", ColumnSecrecy::Symbol),
    ("op", "autograd_node", ColumnSecrecy::Symbol),
    ("op", "module_path", ColumnSecrecy::Name),
    ("op", "pystates_hash", ColumnSecrecy::Identity),
    ("storage", "address", ColumnSecrecy::Address),
    ("tensor", "address", ColumnSecrecy::Address),
    ("tensor", "dtype", ColumnSecrecy::Open),
    ("tensor", "name", ColumnSecrecy::Name),
    ("op_input", "dtype", ColumnSecrecy::Open),
    ("op_input", "value", ColumnSecrecy::Detail),
    ("hlo_module", "name", ColumnSecrecy::Symbol),
    ("hlo_module", "pystates_hash", ColumnSecrecy::Identity),
    ("hlo_instruction", "name", ColumnSecrecy::Symbol),
    ("hlo_instruction", "opcode", ColumnSecrecy::Open),
    ("hlo_instruction", "call_target", ColumnSecrecy::Symbol),
    ("hlo_instruction", "computation", ColumnSecrecy::Symbol),
    ("hlo_instruction", "op_name", ColumnSecrecy::Name),
    ("hlo_instruction", "pystates_hash", ColumnSecrecy::Identity),
    ("hlo_source", "op_name", ColumnSecrecy::Name),
    ("hlo_source", "pystates_hash", ColumnSecrecy::Identity),
    ("device_allocation", "address", ColumnSecrecy::Address),
    ("device_allocation", "pystates_hash", ColumnSecrecy::Identity),
    ("memcpy", "source", ColumnSecrecy::Address),
    ("memcpy", "destination", ColumnSecrecy::Address),
    ("memcpy", "pystates_hash", ColumnSecrecy::Identity),
    ("memcpy", "native_stack", ColumnSecrecy::Identity),
    ("memset", "address", ColumnSecrecy::Address),
    ("memory_access", "address", ColumnSecrecy::Address),
    ("memory_access", "function_id", ColumnSecrecy::Identity),
    ("access_summary", "address", ColumnSecrecy::Address),
    ("access_summary", "block_address", ColumnSecrecy::Address),
    ("access_summary", "function_id", ColumnSecrecy::Identity),
    ("access_histogram", "function_id", ColumnSecrecy::Identity),
    ("pc_sample", "function_id", ColumnSecrecy::Identity),
    ("pc_sample", "stall_reason", ColumnSecrecy::Open),
    ("ablation", "block_address", ColumnSecrecy::Address),
    ("redirect", "block_address", ColumnSecrecy::Address),
    ("ablation_instruction", "function_id", ColumnSecrecy::Identity),
    ("bundle", "attributes", ColumnSecrecy::Attributes),
    ("bundle", "record_ns", ColumnSecrecy::Open),
    ("bundle_page", "address", ColumnSecrecy::Address),
    ("bundle_page", "hash_after", ColumnSecrecy::ContentHash),
    ("bundle_symbol", "symbol", ColumnSecrecy::Symbol),
    ("bundle_symbol", "hash_after", ColumnSecrecy::ContentHash),
    ("bundle_content", "hash", ColumnSecrecy::ContentHash),
    ("bundle_content", "bytes", ColumnSecrecy::Contents),
    ("replay", "detail", ColumnSecrecy::Detail),
    ("counter", "metric", ColumnSecrecy::Open),
    ("counter", "unit", ColumnSecrecy::Open),
    ("loss", "detail", ColumnSecrecy::Detail),
];

/// The secret that a column may give away. `None` if it is not listed yet.
pub fn secrecy(table: &TableDef, column: &ColumnDef) -> Option<ColumnSecrecy> {
    let listed = LISTED.iter().find(|(name, of, _)| *name == table.name && *of == column.name);
    if let Some((_, _, secrecy)) = listed {
        return Some(*secrecy);
    }
    match (column.data_type)() {
        DataType::Utf8 => Some(ColumnSecrecy::Text),
        DataType::Binary => None,
        DataType::UInt64 if column.name.contains("address") || column.name.contains("hash") => None,
        DataType::Int64 if column.name.ends_with("_ns") => Some(ColumnSecrecy::Time),
        _ => Some(ColumnSecrecy::Open),
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
                    assert_eq!(
                        secrecy(table, column),
                        Some(ColumnSecrecy::Text),
                        "{}.{}",
                        table.name,
                        column.name
                    );
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
