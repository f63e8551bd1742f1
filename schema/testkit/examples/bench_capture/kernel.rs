//! Memory accesses of one kernel, with its stalls.

use stallmap_schema::id::{Address, FunctionId, KernelId, Pc, RunId};
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::{AccessKind, Space};

use crate::memory::BenchTensor;
use crate::random::BenchRandom;

const REASONS: [&str; 10] = [
    "barrier",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "mio_throttle",
    "no_instructions",
    "not_selected",
    "selected",
    "short_scoreboard",
    "wait",
];

/// An instruction that accesses memory.
struct BenchInstruction {
    pc: u32,
    /// Two tensors that it alternates between. Mostly the same.
    tensors: [BenchTensor; 2],
    is_stray: bool,
    element: u64,
    is_write: bool,
    pattern: BenchPattern,
    offset: u64,
}

enum BenchPattern {
    Unit,
    Strided(u64),
    Random,
}

/// One launch: `warps` requests by some instructions.
pub(crate) struct BenchKernel {
    id: KernelId,
    function: FunctionId,
    instructions: Vec<BenchInstruction>,
    warps: u64,
    iterations: u64,
}

impl BenchKernel {
    /// A kernel that uses some of the live tensors, the newest more often.
    pub(crate) fn new(
        id: KernelId,
        function: FunctionId,
        live: &[BenchTensor],
        (instructions, warps): (u64, u64),
        random: &mut BenchRandom,
    ) -> Self {
        let recent = &live[live.len().saturating_sub(64)..];
        let used: Vec<BenchTensor> = (0..random.within(3, 8))
            .map(|_| if random.unit() < 0.6 { *random.choose(recent) } else { *random.choose(live) })
            .collect();
        let mut pcs: Vec<u32> = Vec::new();
        while (pcs.len() as u64) < instructions {
            let pc = u32::try_from(random.within(0, 4000) * 16).unwrap_or(0);
            if !pcs.contains(&pc) {
                pcs.push(pc);
            }
        }
        pcs.sort_unstable();
        let instructions: Vec<_> = pcs.into_iter().map(|pc| instruction(pc, &used, random)).collect();
        let iterations = *random.choose(&[1, 2, 4, 8, 16]);
        let iterations = if warps < instructions.len() as u64 * iterations { 1 } else { iterations };
        Self { id, function, instructions, warps, iterations }
    }

    /// Its requests, in the order of a capture.
    pub(crate) fn accesses(&self, random: &mut BenchRandom) -> Vec<MemoryAccess> {
        let count = self.instructions.len() as u64;
        let mut rows: Vec<MemoryAccess> = (0..self.warps)
            .map(|number| {
                let (group, turn) = (number / (count * self.iterations), number / count % self.iterations);
                let place = usize::try_from(number % count).unwrap_or(0);
                self.access(&self.instructions[place], (group, turn), number, random)
            })
            .collect();
        rows.sort_by_key(|row| (row.pc, row.block, row.warp, row.sequence));
        rows
    }

    fn access(
        &self,
        instruction: &BenchInstruction,
        (group, turn): (u64, u64),
        sequence: u64,
        random: &mut BenchRandom,
    ) -> MemoryAccess {
        let tensor = instruction.tensors[usize::from((group + turn) % 2 == 1)];
        let element = instruction.element;
        let room = tensor.bytes.saturating_sub(16).max(16);
        let first = group * self.iterations + turn;
        let address = |lane: u64, random: &mut BenchRandom| {
            let place = match instruction.pattern {
                BenchPattern::Unit => first * 32 * element + instruction.offset + lane * element,
                BenchPattern::Strided(stride) => first * element + instruction.offset + lane * stride,
                BenchPattern::Random => random.within(0, room),
            };
            let place = place % room / element * element;
            if instruction.is_stray { 0x7fff_0000_0000 + (place & 0xffff) } else { tensor.address + place }
        };
        let addresses: [u64; 32] = std::array::from_fn(|lane| address(lane as u64, random));
        MemoryAccess {
            kernel_id: self.id,
            function_id: self.function,
            pc: Pc(instruction.pc),
            block: group / 8,
            warp: u16::try_from(group % 8).unwrap_or(0),
            sequence,
            kind: if instruction.is_write { AccessKind::Write } else { AccessKind::Read },
            space: Space::Global,
            access_bytes: u8::try_from(element).unwrap_or(0),
            ..lanes(&addresses, element)
        }
    }

    /// Five reasons at each instruction.
    pub(crate) fn samples(&self, random: &mut BenchRandom) -> Vec<PcSample> {
        let mut samples = Vec::new();
        for instruction in &self.instructions {
            let mut reasons = REASONS;
            for place in 0..5 {
                let other = usize::try_from(random.within(place, 10)).unwrap_or(0);
                reasons.swap(usize::try_from(place).unwrap_or(0), other);
            }
            reasons[..5].sort_unstable();
            samples.extend(reasons[..5].iter().map(|reason| PcSample {
                run_id: RunId(1),
                kernel_id: self.id,
                function_id: self.function,
                pc: Pc(instruction.pc),
                stall_reason: (*reason).to_owned(),
                samples: format!("{:.0}", random.geometric(30.0)).parse().unwrap_or(1),
                samples_not_issued: 0,
            }));
        }
        samples
    }
}

fn instruction(pc: u32, used: &[BenchTensor], random: &mut BenchRandom) -> BenchInstruction {
    let first = *random.choose(used);
    let second = if random.unit() < 0.15 { *random.choose(used) } else { first };
    let pattern = match random.unit() {
        part if part < 0.7 => BenchPattern::Unit,
        part if part < 0.85 => BenchPattern::Strided(1 << random.within(7, 13)),
        _ => BenchPattern::Random,
    };
    BenchInstruction {
        pc,
        tensors: [first, second],
        is_stray: random.unit() < 0.05,
        element: 1 << random.within(1, 5),
        is_write: random.unit() < 0.3,
        pattern,
        offset: random.within(0, 1 << 20) * 16,
    }
}

/// The columns that say where all 32 lanes are.
fn lanes(addresses: &[u64; 32], element: u64) -> MemoryAccess {
    let low = addresses.iter().copied().min().unwrap_or(0);
    let high = addresses.iter().copied().max().unwrap_or(0);
    let step = addresses[1].cast_signed() - addresses[0].cast_signed();
    let is_regular = addresses.windows(2).all(|pair| pair[1].cast_signed() - pair[0].cast_signed() == step);
    let shift = if is_regular { 0 } else { element.trailing_zeros() };
    let offsets =
        || addresses.iter().map(|address| u32::try_from((address - low) >> shift).unwrap_or(0)).collect();
    MemoryAccess {
        kind: AccessKind::Read,
        space: Space::Global,
        lane_mask: u32::MAX,
        address: Address(low),
        span_bytes: high - low + element,
        stride_bytes: i32::try_from(step).ok().filter(|_| is_regular),
        offsets: (!is_regular).then(offsets),
        offset_shift: u8::try_from(shift).unwrap_or(0),
        ..MemoryAccess::default()
    }
}
