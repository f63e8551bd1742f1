//! The parts of an executable as XLA serializes it: the module, its thunks, its code.
//!
//! For a GPU, an executable is a Riegeli file in a Riegeli file: that of the runtime, and in it that of the compiler.

use crate::riegeli;
use crate::thunk::{self, LaunchThunk};
use crate::wire::{WireFields, read_number};

/// The first bytes of a cubin.
const ELF: &[u8] = b"\x7fELF";
/// Fields of XLA's message.
const MODULE: u64 = 1;
const THUNK: u64 = 13;

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
        let (cubins, others): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.starts_with(ELF));
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

    /// Code that is not a thunk's own.
    pub fn cubins(&self) -> impl Iterator<Item = &[u8]> {
        self.cubins.iter().map(Vec::as_slice)
    }
}
