//! Kinds of launches: those whose accesses are so alike that some are recorded and stand for the rest.
//!
//! Launches of one function with one grid, block and shared memory are of a kind if their parameters are equal but for
//! addresses. Some parameters are new in each launch, such as the state of a random number generator. So there is
//! another sort of kind, with more recorded launches: the same launch of equal ops, by shapes and strides of tensors.
//!
//! If shapes change from launch to launch (tokens of an expert, lengths of sentences), each launch is of a kind of its
//! own. So the more launches of one place in the program are recorded, the fewer blocks write records. All requests of
//! all blocks are counted still, by tensor.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use stallmap_schema::id::{FunctionId, NativeStack, OpId, PystatesHash};

/// Number of launches with equal parameters that are recorded.
const RECORDED: u32 = 2;
/// Number of launches of equal ops that are recorded.
const RECORDED_OF_OP: u32 = 8;
/// Number of launches of one place that are recorded with all blocks of the sample. Of twice as many, the last has
/// half.
const RECORDED_OF_PLACE: u32 = 4;
/// Limit of kinds, and of places: launches of further ones are all recorded.
const MAX_KINDS: usize = 1 << 18;
/// Bytes of an address in the parameters, and their alignment.
const WORD: usize = 8;
/// A block of memory may begin at any multiple of this: addresses of launches of a kind agree in it.
const ALIGNMENT: u64 = 128;

/// The key of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaunchKindKey {
    /// The kernel.
    pub function_id: FunctionId,
    /// Grid x, y, z, block x, y, z.
    pub shape: [u32; 6],
    /// Dynamic shared memory of a block. Null where the launch call was not seen.
    pub shared_bytes: Option<u32>,
    /// The arguments.
    pub arguments: AccessArguments,
}

/// The arguments that decide on the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessArguments {
    /// Hash of the parameters without their addresses.
    Parameters([u8; 32]),
    /// The n-th launch, from 0, of an op with these shapes.
    Op {
        /// Hash of the shapes and strides of the op's tensors.
        shapes_hash: u64,
        /// The launch's number in the op.
        position: u32,
    },
}

impl AccessArguments {
    /// Number of launches that are recorded.
    fn recorded(self) -> u32 {
        match self {
            Self::Parameters(_) => RECORDED,
            Self::Op { .. } => RECORDED_OF_OP,
        }
    }
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

/// Hash of parameters without their addresses: of a word that points into memory, only its place in a line counts.
pub fn without_addresses(parameters: &[u8], is_address: impl Fn(u64) -> bool) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let (words, rest) = parameters.as_chunks::<WORD>();
    for word in words {
        let value = u64::from_le_bytes(*word);
        if is_address(value) {
            hasher.update(b"address").update(&(value % ALIGNMENT).to_le_bytes());
        } else {
            hasher.update(word);
        }
    }
    hasher.update(rest);
    *hasher.finalize().as_bytes()
}

/// A place in the program that launches a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchPlace {
    /// The kernel.
    pub function_id: FunctionId,
    /// The Python stack.
    pub pystates_hash: Option<PystatesHash>,
    /// The native stack, where no op explains the launch.
    pub native_stack: Option<NativeStack>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownLaunchKind {
    recorded: u32,
    /// The last launch that was recorded.
    model: u64,
}

/// The kinds of a session.
#[derive(Debug, Default)]
pub struct LaunchKinds {
    known: Mutex<HashMap<LaunchKindKey, KnownLaunchKind>>,
    /// Number of recorded launches of each place.
    places: Mutex<HashMap<LaunchPlace, u32>>,
}

impl LaunchKinds {
    /// The launch whose accesses stand for those of a launch of these kinds. `None` while more are to be recorded.
    pub fn model(&self, kinds: &[LaunchKindKey]) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let model = |kind: &LaunchKindKey| {
            let known = known.get(kind)?;
            (known.recorded >= kind.arguments.recorded()).then_some(known.model)
        };
        kinds.iter().find_map(model)
    }

    /// The launch with this ordinal, of these kinds, is being recorded.
    pub fn recorded(&self, kinds: Vec<LaunchKindKey>, ordinal: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds {
            if known.len() < MAX_KINDS || known.contains_key(&kind) {
                let known = known.entry(kind).or_default();
                *known = KnownLaunchKind { recorded: known.recorded + 1, model: ordinal };
            }
        }
    }

    /// One in so many blocks of the sample writes records of a further launch of this place, which is counted.
    pub fn divisor(&self, place: LaunchPlace) -> u32 {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= MAX_KINDS && !places.contains_key(&place) {
            return 1;
        }
        let recorded = places.entry(place).or_default();
        *recorded = recorded.saturating_add(1);
        recorded.div_ceil(RECORDED_OF_PLACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(arguments: AccessArguments) -> LaunchKindKey {
        LaunchKindKey {
            function_id: FunctionId(1),
            shape: [4, 1, 1, 32, 1, 1],
            shared_bytes: Some(0),
            arguments,
        }
    }

    fn parameters(text: &[u8]) -> LaunchKindKey {
        kind(AccessArguments::Parameters(without_addresses(text, |_| false)))
    }

    #[test]
    fn the_last_recorded_launch_of_a_kind_stands_for_the_rest() {
        let kinds = LaunchKinds::default();
        let one = parameters(b"one");
        for ordinal in [3, 5] {
            assert_eq!(kinds.model(std::slice::from_ref(&one)), None);
            kinds.recorded(vec![one.clone()], ordinal);
        }
        assert_eq!(kinds.model(&[one]), Some(5));
        assert_eq!(kinds.model(&[parameters(b"two")]), None);
        assert_eq!(kinds.model(&[]), None);
    }

    #[test]
    fn of_an_op_whose_parameters_always_differ_more_launches_are_recorded() {
        let kinds = LaunchKinds::default();
        let of = |seed: u64, position| {
            let op = kind(AccessArguments::Op { shapes_hash: 7, position });
            vec![parameters(&seed.to_le_bytes()), op]
        };
        for seed in 0..u64::from(RECORDED_OF_OP) {
            assert_eq!(kinds.model(&of(seed, 0)), None);
            kinds.recorded(of(seed, 0), seed);
        }
        assert_eq!(kinds.model(&of(99, 0)), Some(u64::from(RECORDED_OF_OP) - 1));
        assert_eq!(kinds.model(&of(99, 1)), None, "another launch of the op");
    }

    #[test]
    fn of_a_place_whose_shapes_always_differ_the_records_grow_ever_slower() {
        let kinds = LaunchKinds::default();
        let place = LaunchPlace { function_id: FunctionId(1), pystates_hash: None, native_stack: None };
        let divisors: Vec<u32> = (0..64).map(|_| kinds.divisor(place)).collect();
        assert_eq!([divisors[3], divisors[4], divisors[7], divisors[63]], [1, 2, 2, 16]);
        assert_eq!(kinds.divisor(LaunchPlace { function_id: FunctionId(2), ..place }), 1);
    }

    #[test]
    fn of_addresses_only_the_place_in_a_line_counts() {
        let hash = |words: [u64; 3], is_address: fn(u64) -> bool| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain([1, 2, 3]).collect();
            without_addresses(&bytes, is_address)
        };
        let is_address = |word| word >= 0x7f00_0000_0000;
        let (one, moved) =
            ([0x7f00_0000_0210, 42, 0x7f00_0000_0400], [0x7f00_0001_0210, 42, 0x7f00_0000_0400]);
        assert_eq!(hash(one, is_address), hash(moved, is_address));
        assert_ne!(hash(one, |_| false), hash(moved, |_| false));
        let shifted = [0x7f00_0000_0220, 42, 0x7f00_0000_0400];
        assert_ne!(hash(one, is_address), hash(shifted, is_address));
        assert_ne!(hash([1, 2, 3], is_address), hash([1, 2, 4], is_address));
    }

    #[test]
    fn launches_of_an_op_are_numbered() {
        let positions: Vec<u32> = [1, 1, 2, 1].map(|op| position_in(OpId(op))).into();
        assert_eq!(positions, [0, 1, 0, 0]);
    }
}
