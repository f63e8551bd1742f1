//! Rows of the queries that compare two runs launch by launch.

use std::collections::BTreeSet;

use stallmap_console::row::IntegerCells;
use stallmap_console::rows;

rows! {
    /// A launch in order.
    #[derive(Clone, Debug, Default)]
    pub(super) struct OrderedLaunch {
        pub(super) kernel_id: u64,
        pub(super) rank: i64,
        pub(super) thread_id: i64,
        pub(super) function_id: u64,
        pub(super) name: String,
        pub(super) kernel: String,
        pub(super) shape: String,
        /// Bytes of the arguments as hexadecimal digits.
        pub(super) parameters: Option<String>,
        /// Begin of each argument, and its bytes.
        pub(super) offsets: IntegerCells,
        pub(super) sizes: IntegerCells,
        pub(super) line: Option<String>,
        pub(super) op: Option<String>,
        pub(super) is_bundled: bool,
    }

    /// A pointer among the arguments, and the memory that it leads to.
    #[derive(Clone, Debug, Default)]
    pub(super) struct ArgumentPointer {
        pub(super) kernel_id: u64,
        pub(super) parameter_offset: u64,
        pub(super) storage_id: Option<u64>,
        pub(super) tensor_id: Option<u64>,
        pub(super) allocation_id: Option<u64>,
        pub(super) object_address: u64,
        pub(super) object_bytes: u64,
        pub(super) tensor_address: Option<u64>,
        pub(super) tensor_bytes: Option<u64>,
        pub(super) label: Option<String>,
        pub(super) data_type: Option<String> as "type",
        pub(super) dtype: Option<String>,
        pub(super) element_bytes: Option<u64>,
    }

    /// A word of constant memory that a block of a kernel's instructions reads.
    #[derive(Clone, Debug)]
    pub(super) struct ReadWord {
        pub(super) kernel_function_id: u64,
        pub(super) function_id: u64,
        pub(super) block: Option<u64>,
        pub(super) begin: u64,
        pub(super) word: String,
        pub(super) bytes: u64,
    }

    /// Accesses of one instruction of one launch to one piece of memory.
    #[derive(Clone, Debug)]
    pub(super) struct InstructionAccess {
        pub(super) kernel_id: u64,
        pub(super) function_id: u64,
        pub(super) pc: u64,
        /// Its block of instructions.
        pub(super) block: Option<u64>,
        pub(super) kind: String,
        pub(super) space: String,
        pub(super) storage_id: Option<u64>,
        pub(super) allocation_id: Option<u64>,
        /// True if the launch made no other accesses.
        pub(super) is_whole: bool,
        pub(super) lanes: u64,
    }

    /// A page of a bundled launch.
    #[derive(Clone, Debug)]
    pub(super) struct HashedPage {
        pub(super) kernel_id: u64,
        pub(super) address: u64,
        pub(super) hash: u64,
        pub(super) hash_after: Option<u64>,
    }

    /// The content of a page, as hexadecimal digits.
    #[derive(Clone, Debug)]
    pub(super) struct PageText {
        pub(super) address: u64,
        pub(super) bytes: String,
    }

    /// The index of an element.
    #[derive(Clone, Debug)]
    pub(super) struct ElementText {
        pub(super) element: Option<String>,
    }
}

/// The bytes of hexadecimal digits.
pub(super) fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2);
    digits
        .map(|pair| {
            let pair = str::from_utf8(pair).unwrap_or_default();
            u8::from_str_radix(pair, 16).unwrap_or_default()
        })
        .collect()
}

impl OrderedLaunch {
    /// Bytes of arguments of up to eight bytes: single values, which have no padding.
    pub(super) fn single_bytes(&self) -> BTreeSet<u64> {
        let arguments = self.offsets.0.iter().zip(&self.sizes.0).filter(|(_, size)| (1..=8).contains(*size));
        arguments.flat_map(|(offset, size)| *offset..*offset + *size).map(i64::cast_unsigned).collect()
    }
}

impl ReadWord {
    /// The offsets of its bytes among the arguments.
    pub(super) fn bytes(&self) -> impl Iterator<Item = u64> {
        let offset =
            u64::from_str_radix(&self.word, 16).ok().and_then(|offset| offset.checked_sub(self.begin));
        offset.into_iter().flat_map(|offset| offset..offset.saturating_add(self.bytes))
    }
}

impl ArgumentPointer {
    /// The first address of what it leads to, and the first behind it: the tensor, else the memory.
    pub(super) fn range(&self) -> (u64, u64) {
        match (self.tensor_address, self.tensor_bytes) {
            (Some(address), Some(bytes)) => (address, address.saturating_add(bytes)),
            _ => (self.object_address, self.object_address.saturating_add(self.object_bytes)),
        }
    }

    /// The memory: its storage, or the driver's allocation.
    pub(super) fn object(&self) -> (Option<u64>, Option<u64>) {
        (self.storage_id, if self.storage_id.is_none() { self.allocation_id } else { None })
    }

    /// Its name and type.
    pub(super) fn text(&self) -> String {
        let label = self.label.as_deref().unwrap_or("memory");
        match &self.data_type {
            Some(data_type) => format!("{label} ({data_type})"),
            None => label.to_owned(),
        }
    }
}
