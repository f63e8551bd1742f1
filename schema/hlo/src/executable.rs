//! The parts of an executable as XLA serializes it: the module, its thunks, its code.
//!
//! For a GPU, an executable is a Riegeli file in a Riegeli file: that of the runtime, and in it that of the compiler.

use std::collections::BTreeMap;

use crate::riegeli;
use crate::thunk::{self, LaunchThunk};
use crate::wire::{WireFields, read_number};

/// The first bytes of a cubin.
const ELF: &[u8] = b"\x7fELF";
/// Fields of XLA's message.
const MODULE: u64 = 1;
const ALLOCATIONS: u64 = 10;
const RESULT: u64 = 11;
const THUNK: u64 = 13;
/// Maximum number of blocks of memory.
const MAX_ALLOCATIONS: usize = 1 << 20;

/// A block of memory of an executable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XlaAllocation {
    /// Its number.
    pub index: u64,
    /// Its bytes.
    pub size: u64,
    /// The argument of the module that it is.
    pub parameter: Option<u64>,
    /// The result that it becomes, counted from 0.
    pub result: Option<u64>,
}

/// A decoded executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XlaExecutable {
    /// The compiler's message.
    message: Vec<u8>,
    /// Code that is not a thunk's own.
    cubins: Vec<Vec<u8>>,
    /// True if the message is a module itself.
    is_module: bool,
}

impl XlaExecutable {
    /// Decodes an executable. `None` where the bytes are not those of one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        // The runtime's header, with its length before it.
        let (length, rest) = read_number(bytes)?;
        let rest = rest.get(usize::try_from(length).ok()?..)?;
        let executable = if rest.starts_with(&riegeli::SIGNATURE) {
            let records = riegeli::records(rest)?;
            let inner = records.into_iter().find(|record| record.starts_with(&riegeli::SIGNATURE))?;
            Self::from_records(riegeli::records(&inner)?)
        } else {
            let message = WireFields::message(rest, 1)?.to_vec();
            Self { message, ..Self::default() }
        };
        (!executable.module().is_empty()).then_some(executable)
    }

    /// An executable of which only the module is known.
    pub fn from_module(module: Vec<u8>) -> Self {
        Self { message: module, cubins: Vec::new(), is_module: true }
    }

    fn from_records(records: Vec<Vec<u8>>) -> Self {
        let (cubins, others): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.starts_with(ELF));
        let message = others.into_iter().max_by_key(Vec::len).unwrap_or_default();
        Self { message, cubins, is_module: false }
    }

    /// The serialized module: see [`crate::module`].
    pub fn module(&self) -> &[u8] {
        if self.is_module {
            return &self.message;
        }
        WireFields::message(&self.message, MODULE)
            .and_then(|module| WireFields::message(module, MODULE))
            .unwrap_or(&[])
    }

    /// The thunks of the entry computation. Empty where the executable has none.
    pub fn thunks(&self) -> Vec<LaunchThunk<'_>> {
        if self.is_module {
            return Vec::new();
        }
        let mut budget = thunk::MAX_THUNKS;
        let fields = WireFields::new(&self.message).filter(|(tag, _)| *tag == THUNK);
        fields.filter_map(|(_, value)| LaunchThunk::read(value.bytes()?, 0, &mut budget)).collect()
    }

    /// The blocks of memory, by their number. Empty where they are not known.
    pub fn allocations(&self) -> BTreeMap<u64, XlaAllocation> {
        let mut allocations = BTreeMap::new();
        let message = if self.is_module { &[][..] } else { &self.message };
        let list = WireFields::message(message, ALLOCATIONS).unwrap_or(&[]);
        for (_, value) in WireFields::new(list).take(MAX_ALLOCATIONS) {
            let allocation = XlaAllocation::read(value.bytes().unwrap_or(&[]));
            allocations.insert(allocation.index, allocation);
        }
        // The position in the tuple of results, and the block.
        let results = WireFields::new(message).filter(|(tag, _)| *tag == RESULT);
        let blocks: Vec<(Option<u64>, u64)> =
            results.filter_map(|(_, entry)| result_block(entry.bytes()?)).collect();
        // The tuple itself is an entry too, without a position.
        let is_tuple = blocks.len() > 1;
        for (position, block) in blocks.into_iter().filter(|(position, _)| position.is_some() || !is_tuple) {
            if let Some(allocation) = allocations.get_mut(&block) {
                allocation.result = Some(position.unwrap_or(0));
            }
        }
        allocations
    }

    /// Code that is not a thunk's own.
    pub fn cubins(&self) -> impl Iterator<Item = &[u8]> {
        self.cubins.iter().map(Vec::as_slice)
    }
}

/// A result's position and block.
fn result_block(entry: &[u8]) -> Option<(Option<u64>, u64)> {
    let mut position = Vec::new();
    let index = WireFields::message(entry, 1).unwrap_or(&[]);
    WireFields::new(index)
        .filter(|(tag, _)| *tag == 1)
        .for_each(|(_, value)| value.add_numbers(&mut position));
    let result = WireFields::message(entry, 2)?;
    let block = WireFields::new(result).find(|(tag, _)| *tag == 1).map_or(0, |(_, block)| block.number());
    Some((position.first().copied(), block))
}

impl XlaAllocation {
    fn read(bytes: &[u8]) -> Self {
        let (mut allocation, mut is_parameter, mut parameter) = (Self::default(), false, 0);
        for (tag, value) in WireFields::new(bytes) {
            match tag {
                1 => allocation.index = value.number(),
                2 => allocation.size = value.number(),
                5 => is_parameter = value.number() != 0,
                6 => parameter = value.number(),
                _ => {}
            }
        }
        allocation.parameter = is_parameter.then_some(parameter);
        allocation
    }
}
