//! The rule of [`super`] as a nested loop over all storages and views: the reference for the engine.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow::array::RecordBatch;
use proptest::collection::vec;
use proptest::prelude::*;
use stallmap_schema::id::{Address, AllocationId, KernelId, OpId, RunId, StorageId, TensorId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::memory::DeviceAllocation;
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_schema::word::{Direction, Match, OpKind, Phase, StorageOrigin};

use super::index::{IndexTables, TensorIndex};
use super::request::{ActiveLanes, WarpRequest};
use super::resolve::{AddressResolver, LaneShare};
use super::tensor_map;

const LAUNCHES: u64 = 8;

/// Address, bytes, first launch, launch after the last.
type ReferenceBlock = (u64, u64, u64, Option<u64>);
/// Storage, offset, sizes, strides (elements of 4 bytes), the op that created it.
type ReferenceView = (usize, u64, Vec<i64>, Vec<i64>, Option<u64>);

/// A small program: everything lies in 1,024 bytes, which forces reuse of addresses and overlapping views.
#[derive(Clone, Debug)]
struct ReferenceProgram {
    storages: Vec<ReferenceBlock>,
    tensors: Vec<ReferenceView>,
    /// Op and tensor.
    parts: Vec<(u64, usize)>,
    allocations: Vec<ReferenceBlock>,
    /// Op of each launch.
    ops: Vec<Option<u64>>,
    /// Per launch that is a node of a graph, the ordinal of its capture.
    captured: Vec<Option<u64>>,
}

/// Ops 0 to 3 run in sequence. Op 4 + n is inside op n. Op n begins at 10 n, launch n at 5 n.
const OPS: u64 = 8;

fn parent(op: u64) -> Option<u64> {
    op.checked_sub(4)
}

fn op_begins(op: u64) -> i64 {
    10 * i64::try_from(op % 4).unwrap()
}

/// The end of every fourth op is unknown.
fn op_ends(op: u64) -> Option<i64> {
    (op % 4 < 3).then(|| op_begins(op) + 6)
}

fn launch_begins(ordinal: u64) -> i64 {
    5 * i64::try_from(ordinal).unwrap()
}

fn program() -> impl Strategy<Value = ReferenceProgram> {
    let life = || (0..64_u64, 0..32_u64, 0..LAUNCHES, proptest::option::of(0..LAUNCHES));
    let dimension = (1..5_i64, 0..9_i64);
    let tensor = (0..6_usize, 0..8_u64, vec(dimension, 0..4), proptest::option::of(0..OPS));
    let tensor = tensor.prop_map(|(storage, offset, dimensions, op)| {
        let (sizes, strides) = dimensions.into_iter().unzip();
        (storage, offset, sizes, strides, op)
    });
    let part = (0..OPS, 0..12_usize);
    let op = (proptest::option::of(0..OPS), proptest::option::of(0..LAUNCHES));
    (vec(life(), 0..6), vec(tensor, 0..12), vec(part, 0..12), vec(life(), 0..3), vec(op, 8)).prop_map(
        |(storages, tensors, parts, allocations, ops)| {
            let (ops, captured) = ops.into_iter().unzip();
            let blocks = |(low, size, begin_ordinal, dead)| (low * 16, size * 16, begin_ordinal, dead);
            ReferenceProgram {
                storages: storages.into_iter().map(blocks).collect(),
                tensors,
                parts,
                allocations: allocations.into_iter().map(blocks).collect(),
                ops,
                captured,
            }
        },
    )
}

impl ReferenceProgram {
    fn sources(&self) -> IndexTables {
        IndexTables {
            launch: self.launches(),
            launch_run: LaunchRun::batch((0..LAUNCHES).map(launch_run)).unwrap(),
            op: Op::batch((0..OPS).map(op)).unwrap(),
            op_tensor: self.op_tensors(),
            storage: self.storages(),
            tensor: self.tensors(),
            device_allocation: self.allocations(),
            launch_parameter: None,
        }
    }

    fn launches(&self) -> RecordBatch {
        let launch = |((ordinal, op), captured): ((u64, &Option<u64>), &Option<u64>)| Launch {
            kernel_id: KernelId(ordinal),
            run_id: RunId(1),
            ordinal,
            grid_x: 1,
            grid_y: 1,
            grid_z: 1,
            block_x: 32,
            block_y: 1,
            block_z: 1,
            op_id: op.map(OpId),
            capture_ordinal: *captured,
            ..Launch::default()
        };
        Launch::batch((0..).zip(&self.ops).zip(&self.captured).map(launch)).unwrap()
    }

    fn op_tensors(&self) -> RecordBatch {
        let part = |&(op, tensor): &(u64, usize)| OpTensor {
            op_id: OpId(op),
            direction: Direction::In,
            position: 0,
            element: 0,
            tensor_id: TensorId(tensor as u64),
            argument: None,
        };
        OpTensor::batch(self.parts.iter().map(part)).unwrap()
    }

    fn storages(&self) -> RecordBatch {
        let storage =
            |(id, &(low, size_bytes, alloc_ordinal, free_ordinal)): (u64, &ReferenceBlock)| Storage {
                storage_id: StorageId(id),
                run_id: RunId(1),
                address: Address(low),
                size_bytes,
                alloc_ordinal,
                free_ordinal,
                origin: StorageOrigin::Allocator,
                ..Storage::default()
            };
        Storage::batch((0..).zip(&self.storages).map(storage)).unwrap()
    }

    fn allocations(&self) -> RecordBatch {
        let allocation = |(id, &(low, size_bytes, alloc_ordinal, free_ordinal)): (u64, &ReferenceBlock)| {
            DeviceAllocation {
                allocation_id: AllocationId(id),
                run_id: RunId(1),
                address: Address(low),
                size_bytes,
                alloc_ordinal,
                free_ordinal,
                ..DeviceAllocation::default()
            }
        };
        DeviceAllocation::batch((0..).zip(&self.allocations).map(allocation)).unwrap()
    }

    fn tensor_address(&self, tensor: usize) -> Option<u64> {
        let (storage, offset, ..) = &self.tensors[tensor];
        Some(self.storages.get(*storage)?.0 + offset * 4)
    }

    fn tensors(&self) -> RecordBatch {
        let tensor = |(id, (storage, _, sizes, strides, op)): (usize, &ReferenceView)| Tensor {
            tensor_id: TensorId(id as u64),
            run_id: RunId(1),
            storage_id: StorageId(*storage as u64),
            op_id: op.map(OpId),
            address: Address(self.tensor_address(id).unwrap_or(0)),
            dtype: "float32".to_owned(),
            element_bytes: 4,
            sizes: sizes.clone(),
            strides: strides.clone(),
            ..Tensor::default()
        };
        Tensor::batch(self.tensors.iter().enumerate().map(tensor)).unwrap()
    }

    /// Target of an address at a launch: (storage, tensor, allocation).
    fn target(&self, ordinal: u64, address: u64) -> (Option<u64>, Option<u64>, Option<u64>) {
        let time = self.captured[usize::try_from(ordinal).unwrap()].unwrap_or(ordinal);
        let lives = |&(low, size, begin_ordinal, dead): &ReferenceBlock| {
            low <= address
                && address < low + size
                && begin_ordinal <= time
                && dead.is_none_or(|dead| time < dead)
        };
        let smallest = |blocks: &[ReferenceBlock]| {
            let held = blocks.iter().enumerate().filter(|(_, block)| lives(block));
            held.min_by_key(|&(id, &(_, size, begin_ordinal, _))| (size, Reverse((begin_ordinal, id))))
                .map(|(id, _)| id)
        };
        let Some(storage) = smallest(&self.storages) else {
            return (None, None, smallest(&self.allocations).map(|id| id as u64));
        };
        let views = (0..self.tensors.len()).filter(|&tensor| {
            let (of, .., op) = &self.tensors[tensor];
            let exists = op.is_none_or(|op| op_begins(op) <= self.views_until(ordinal));
            *of == storage && exists && self.elements(tensor).iter().any(|&e| e <= address && address < e + 4)
        });
        let best = views.min_by_key(|&tensor| {
            let elements = self.elements(tensor);
            let span = elements.iter().max().unwrap() - elements.iter().min().unwrap();
            (self.depth(ordinal, tensor), self.bytes(tensor), span, Reverse(tensor))
        });
        (Some(storage as u64), best.map(|tensor| tensor as u64), None)
    }

    /// Ops that began later than the launch, or than the op that captured it, created their views later.
    fn views_until(&self, ordinal: u64) -> i64 {
        let launch = usize::try_from(ordinal).unwrap();
        let capture_end = self.captured[launch].and(self.ops[launch]).and_then(op_ends);
        capture_end.map_or(launch_begins(ordinal), |end| end.min(launch_begins(ordinal)))
    }

    /// Addresses of all elements, index by index.
    fn elements(&self, tensor: usize) -> Vec<u64> {
        let (.., sizes, strides, _) = &self.tensors[tensor];
        let mut elements = vec![self.tensor_address(tensor).unwrap()];
        for (size, stride) in sizes.iter().zip(strides) {
            let steps: Vec<u64> = (0..*size).map(|index| (index * stride * 4).unsigned_abs()).collect();
            elements =
                elements.iter().flat_map(|element| steps.iter().map(move |step| element + step)).collect();
        }
        elements
    }

    /// Bytes of its elements, dimensions that do not move left out.
    fn bytes(&self, tensor: usize) -> i64 {
        let (.., sizes, strides, _) = &self.tensors[tensor];
        sizes.iter().zip(strides).filter(|(_, stride)| **stride != 0).map(|(size, _)| size).product()
    }

    fn depth(&self, ordinal: u64, tensor: usize) -> u32 {
        let mut op = self.ops[usize::try_from(ordinal).unwrap()];
        for depth in 0.. {
            let Some(current) = op else { break };
            if self.parts.contains(&(current, tensor)) {
                return depth;
            }
            op = parent(current);
        }
        u32::MAX
    }
}

fn launch_run(ordinal: u64) -> LaunchRun {
    LaunchRun {
        run_id: RunId(1),
        ordinal,
        kernel_id: KernelId(ordinal),
        matched: Match::Reference,
        begin_ns: launch_begins(ordinal),
        recorded: true,
        ..LaunchRun::default()
    }
}

fn op(number: u64) -> Op {
    Op {
        op_id: OpId(number),
        run_id: RunId(1),
        kind: OpKind::Torch,
        parent_op_id: parent(number).map(OpId),
        begin_ns: op_begins(number),
        end_ns: op_ends(number),
        phase: Phase::Forward,
        ..Op::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_address_belongs_where_the_nested_loop_says(
        program in program(),
        requests in vec((0..LAUNCHES, 0..1200_u64, -40..40_i32, any::<u32>(), any::<bool>()), 1..20),
    ) {
        let index = Arc::new(TensorIndex::build(&program.sources()).unwrap());
        let mut resolver = AddressResolver::new(Arc::clone(&index));
        for (ordinal, address, stride, mask, whole) in requests {
            let lane_mask = if whole { u32::MAX } else { mask | 1 };
            let lanes = 32 - (lane_mask.leading_zeros() + lane_mask.trailing_zeros());
            let span_bytes = u64::from(stride.unsigned_abs()) * u64::from(lanes - 1) + 4;
            let request = WarpRequest { lane_mask, address, span_bytes, access_bytes: 4, lanes: ActiveLanes::Regular(stride) };
            let mut shares: Vec<LaneShare> = Vec::new();
            resolver.move_to(ordinal);
            resolver.resolve(&request, &mut shares);
            prop_assert_eq!(shares.iter().fold(0, |seen, share| seen ^ share.lane_mask), lane_mask);
            for (lane, address) in request.addresses() {
                let share = shares.iter().find(|share| share.lane_mask >> lane & 1 == 1).unwrap();
                let given = AddressResolver::ids(&index, share.target);
                prop_assert_eq!(given, program.target(ordinal, address), "launch {} address {}", ordinal, address);
            }
        }
    }

    #[test]
    fn addresses_together_are_counted_like_each_alone(
        program in program(),
        groups in vec((0..LAUNCHES, vec(0..1200_u64, 1..6)), 1..20),
    ) {
        let mut resolver = AddressResolver::new(Arc::new(TensorIndex::build(&program.sources()).unwrap()));
        for (ordinal, addresses) in groups {
            resolver.move_to(ordinal);
            let counted = tensor_map::counted(&addresses, &mut resolver);
            prop_assert_eq!(counted.iter().map(|(_, count)| count).sum::<usize>(), addresses.len());
            for (target, count) in counted {
                let own = addresses.iter().filter(|address| resolver.target(**address) == target);
                prop_assert_eq!(own.count(), count);
            }
        }
    }
}
