//! Kinds of launches: those whose accesses are so alike that some are recorded and stand for the rest.
//!
//! Launches of one function with one grid, block and shared memory are of a kind if they are the same launch of equal
//! ops (by the shapes and strides of their tensors), or if their parameters are equal but for addresses.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use stallmap_schema::id::{FunctionId, OpId};

/// Number of launches of a kind that are recorded.
const RECORDED: u32 = 2;
/// Bytes of an address in the parameters, and their alignment.
const WORD: usize = 8;
/// A block of memory may begin at any multiple of this: addresses of launches of a kind agree in it.
const ALIGNMENT: u64 = 128;

/// The key of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The kernel.
    pub function_id: FunctionId,
    /// Grid x, y, z, block x, y, z.
    pub shape: [u32; 6],
    /// Dynamic shared memory of a block. Null where the launch call was not seen.
    pub shared_bytes: Option<u32>,
    /// The arguments.
    pub arguments: Arguments,
}

/// The arguments that decide on the accesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Arguments {
    /// The n-th launch, from 0, of an op with these shapes. Its other parameters, such as the state of a random number
    /// generator, may differ.
    Op {
        /// Hash of the shapes and strides of the op's tensors.
        shapes_hash: u64,
        /// The launch's number in the op.
        position: u32,
    },
    /// The parameters without their addresses.
    Parameters(Vec<u8>),
    /// They are not known: the launch is of a kind of its own.
    Unknown(u64),
}

thread_local! {
    /// The op that last launched on this thread, and the number of its launches.
    static LAST_OP: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// The number of this launch in an op, from 0. Counts it.
pub fn position_in(op: OpId) -> u32 {
    LAST_OP.with(|last| {
        let (id, count) = last.get();
        let position = if id == op.0 { count } else { 0 };
        last.set((op.0, position + 1));
        position
    })
}

/// Parameters without their addresses: of a word that points into a block of memory, only its place in a line is left.
pub fn without_addresses(parameters: &[u8], is_address: impl Fn(u64) -> bool) -> Vec<u8> {
    let mut bytes = parameters.to_vec();
    for word in bytes.chunks_exact_mut(WORD) {
        let mut value = [0; WORD];
        value.copy_from_slice(word);
        let value = u64::from_le_bytes(value);
        if is_address(value) {
            word.copy_from_slice(&(value % ALIGNMENT).to_le_bytes());
        }
    }
    bytes
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    recorded: u32,
    /// The last launch that was recorded.
    model: u64,
}

/// The kinds of a session.
#[derive(Debug, Default)]
pub struct Kinds(Mutex<HashMap<Kind, Known>>);

impl Kinds {
    /// The launch whose accesses stand for those of a kind. `None` while more are to be recorded.
    pub fn model(&self, kind: &Kind) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(kind).copied()?;
        (known.recorded >= RECORDED).then_some(known.model)
    }

    /// The launch with this ordinal is being recorded.
    pub fn recorded(&self, kind: Kind, ordinal: u64) {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kinds.entry(kind).or_default();
        *known = Known { recorded: known.recorded + 1, model: ordinal };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(arguments: Arguments) -> Kind {
        Kind { function_id: FunctionId(1), shape: [4, 1, 1, 32, 1, 1], shared_bytes: Some(0), arguments }
    }

    #[test]
    fn the_last_recorded_launch_of_a_kind_stands_for_the_rest() {
        let kinds = Kinds::default();
        let one = kind(Arguments::Op { shapes_hash: 7, position: 0 });
        for ordinal in [3, 5] {
            assert_eq!(kinds.model(&one), None);
            kinds.recorded(one.clone(), ordinal);
        }
        assert_eq!(kinds.model(&one), Some(5));
        assert_eq!(kinds.model(&kind(Arguments::Op { shapes_hash: 7, position: 1 })), None);
        assert_eq!(kinds.model(&kind(Arguments::Unknown(9))), None);
    }

    #[test]
    fn of_addresses_only_the_place_in_a_line_is_left() {
        let words: [u64; 3] = [0x7f00_0000_0210, 42, 0x7f00_0000_0400];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain([1, 2, 3]).collect();
        let masked = without_addresses(&bytes, |word| word >= 0x7f00_0000_0000);
        let moved: [u64; 3] = [0x7f00_0001_0210, 42, 0x7f00_0000_0400];
        let bytes: Vec<u8> = moved.iter().flat_map(|word| word.to_le_bytes()).chain([1, 2, 3]).collect();
        assert_eq!(masked, without_addresses(&bytes, |word| word >= 0x7f00_0000_0000));
        assert_ne!(masked, without_addresses(&bytes, |_| false));
        assert_eq!(masked[8], 42);
        assert_eq!(masked.len(), 27);
    }

    #[test]
    fn launches_of_an_op_are_numbered() {
        let positions: Vec<u32> = [1, 1, 2, 1].map(|op| position_in(OpId(op))).into();
        assert_eq!(positions, [0, 1, 0, 0]);
    }
}
