//! A kernel's code with everything known of it: the rows of `sql/queries/source/`, by instruction and by line.

use std::collections::BTreeMap;

use stallmap_console::answer::SectionAnswer;
use stallmap_console::exit::Outcome;
use stallmap_console::row::QueryRow;
use stallmap_console::rows;

/// An instruction: its function and its pc.
pub(super) type CodeAddress = (u64, u64);

rows! {
    /// The kernel.
    #[derive(Clone, Debug)]
    pub(super) struct ListingKernel {
        /// Its label.
        pub(super) name: String as "kernel",
        /// Its name as the programmer wrote it.
        pub(super) full_name: String,
        /// Its identity.
        pub(super) function_id: u64,
        /// The architecture of its code.
        pub(super) sm: Option<u32>,
        /// Launches.
        pub(super) launches: u64,
        /// Samples.
        pub(super) samples: f64,
        /// Their part of all samples.
        pub(super) share: Option<f64>,
        /// Instructions. None if the code was not decoded.
        pub(super) instructions: Option<u64>,
        /// Unknown instructions.
        pub(super) unknown_instructions: Option<u64>,
        /// Blocks of its smallest grid.
        pub(super) least_blocks: Option<u64>,
        /// Blocks of its largest grid.
        pub(super) most_blocks: Option<u64>,
        /// Threads of a block.
        pub(super) block_threads: Option<u64>,
        /// Registers of a thread.
        pub(super) register_count: Option<u64>,
        /// Theoretical occupancy.
        pub(super) occupancy: Option<f64>,
        /// Part of the multiprocessors without a block, in the largest grid.
        pub(super) idle_multiprocessor_share: Option<f64>,
        /// Why the code was not read.
        pub(super) not_read_because: Option<String>,
    }

    /// A source line that has instructions.
    #[derive(Clone, Debug)]
    pub(super) struct ListingLine {
        /// The compiler's file name.
        pub(super) file: String,
        /// The line.
        pub(super) number: u32 as "line",
        /// Samples that found warps at its instructions.
        pub(super) samples: f64,
        /// Samples attributed to its loads and stores.
        pub(super) charged_samples: f64,
        /// Its text, if the capture has it.
        pub(super) text: Option<String>,
    }

    /// An instruction.
    #[derive(Clone, Debug)]
    pub(super) struct ListingInstruction {
        function_id: u64,
        /// The name of its function.
        pub(super) function: Option<String>,
        /// Bytes from the function's start.
        pub(super) pc: u64,
        /// The first pc of its block.
        pub(super) block: Option<u64>,
        /// Its source file.
        pub(super) file: Option<String>,
        /// Its line.
        pub(super) line: Option<u32>,
        /// Functions inlined around it.
        pub(super) call_path: Option<String>,
        /// Disassembly. None if the code was not decoded.
        pub(super) text: Option<String>,
        /// Its guard.
        pub(super) guard: Option<String>,
        /// Registers that it writes.
        pub(super) writes: Option<String>,
        /// Registers that it reads.
        pub(super) reads: Option<String>,
        /// Kind of memory access.
        pub(super) memory_kind: Option<String>,
        /// Samples that found warps at it.
        pub(super) samples: f64,
        /// Samples attributed to it.
        pub(super) charged_samples: f64,
        /// Its warp requests. None if none was observed.
        pub(super) requests: Option<f64>,
        /// Sectors that they touch.
        pub(super) sectors: Option<f64>,
        /// The fewest sectors that hold those bytes.
        pub(super) ideal_sectors: Option<f64>,
    }

    /// Samples of an instruction for one reason.
    #[derive(Clone, Debug)]
    pub(super) struct ReasonSamples {
        function_id: u64,
        pc: u64,
        /// The reason.
        pub(super) name: String as "stall_reason",
        /// The samples.
        pub(super) samples: f64,
    }

    /// A producer of a stalled instruction.
    #[derive(Clone, Debug)]
    pub(super) struct StallProducer {
        function_id: u64,
        pc: u64,
        /// Why it stalled.
        pub(super) stall_reason: String,
        from_function_id: Option<u64> as "producer_function_id",
        from_pc: Option<u64> as "producer_pc",
        /// Label without a producer.
        pub(super) remainder: Option<String>,
        /// Samples times the weight.
        pub(super) samples: f64,
        /// Confidence of the producer.
        pub(super) confidence: Option<String>,
    }

    /// A possible producer of an instruction.
    #[derive(Clone, Debug)]
    pub(super) struct PossibleProducer {
        function_id: u64,
        pc: u64,
        producer_function_id: u64,
        producer_pc: u64,
        /// Dependency between the two.
        pub(super) link: String,
    }

    /// One target of an instruction.
    #[derive(Clone, Debug)]
    pub(super) struct InstructionTarget {
        function_id: u64,
        pc: u64,
        /// The tensor, the storage or the allocation, or a label in parentheses.
        pub(super) tensor: String,
        /// Its type and shape.
        pub(super) kind: Option<String> as "type",
        /// Its allocation site.
        pub(super) born_at: Option<String>,
        /// Its part of the instruction's sectors. None if the target follows from the code.
        pub(super) share: Option<f64>,
    }
}

impl ListingInstruction {
    /// Its location.
    pub(super) const fn place(&self) -> CodeAddress {
        (self.function_id, self.pc)
    }

    /// Its source line.
    pub(super) fn source(&self) -> Option<(&str, u32)> {
        Some((self.file.as_deref()?, self.line?))
    }
}

impl StallProducer {
    /// The producer. None without one.
    pub(super) fn producer(&self) -> Option<CodeAddress> {
        Some((self.from_function_id.unwrap_or(self.function_id), self.from_pc?))
    }
}

impl PossibleProducer {
    /// The instruction that produces.
    pub(super) const fn producer(&self) -> CodeAddress {
        (self.producer_function_id, self.producer_pc)
    }
}

/// All rows, indexed by instruction.
#[derive(Debug)]
pub(super) struct KernelListing {
    /// The kernel.
    pub(super) kernel: ListingKernel,
    /// Its lines, hottest first. None if its code has no lines.
    pub(super) lines: Vec<ListingLine>,
    /// Its instructions, in order.
    pub(super) instructions: Vec<ListingInstruction>,
    places: BTreeMap<CodeAddress, usize>,
    reasons: BTreeMap<CodeAddress, Vec<ReasonSamples>>,
    producers: BTreeMap<CodeAddress, Vec<StallProducer>>,
    waits: BTreeMap<CodeAddress, Vec<PossibleProducer>>,
    touches: BTreeMap<CodeAddress, Vec<InstructionTarget>>,
}

impl KernelListing {
    /// The listing of the results. None if the capture has no launch of the kernel.
    pub(super) fn from_answers(answers: &[SectionAnswer]) -> Outcome<Option<Self>> {
        let Some(kernel) = read::<ListingKernel>(answers, "kernel")?.into_iter().next() else {
            return Ok(None);
        };
        let instructions: Vec<ListingInstruction> = read(answers, "instructions")?;
        let places = instructions.iter().enumerate().map(|(at, row)| (row.place(), at)).collect();
        Ok(Some(Self {
            kernel,
            lines: read(answers, "lines")?,
            instructions,
            places,
            reasons: grouped(read(answers, "reasons")?, |row: &ReasonSamples| (row.function_id, row.pc)),
            producers: grouped(read(answers, "producers")?, |row: &StallProducer| (row.function_id, row.pc)),
            waits: grouped(read(answers, "waits")?, |row: &PossibleProducer| (row.function_id, row.pc)),
            touches: grouped(read(answers, "tensors")?, |row: &InstructionTarget| (row.function_id, row.pc)),
        }))
    }

    /// An instruction and its position.
    pub(super) fn find(&self, place: CodeAddress) -> Option<(usize, &ListingInstruction)> {
        let at = *self.places.get(&place)?;
        Some((at, self.instructions.get(at)?))
    }

    /// Its samples by reason, largest first.
    pub(super) fn reasons(&self, place: CodeAddress) -> &[ReasonSamples] {
        self.reasons.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Its producers, largest first.
    pub(super) fn producers(&self, place: CodeAddress) -> &[StallProducer] {
        self.producers.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Its possible producers.
    pub(super) fn waits(&self, place: CodeAddress) -> &[PossibleProducer] {
        self.waits.get(&place).map_or(&[], Vec::as_slice)
    }

    /// Its targets, largest first.
    pub(super) fn touches(&self, place: CodeAddress) -> &[InstructionTarget] {
        self.touches.get(&place).map_or(&[], Vec::as_slice)
    }

    /// A count of samples as a part of the kernel's.
    pub(super) fn share(&self, samples: f64) -> f64 {
        if self.kernel.samples > 0.0 { samples / self.kernel.samples } else { 0.0 }
    }
}

fn grouped<R>(rows: Vec<R>, place: impl Fn(&R) -> CodeAddress) -> BTreeMap<CodeAddress, Vec<R>> {
    let mut groups: BTreeMap<CodeAddress, Vec<R>> = BTreeMap::new();
    for row in rows {
        groups.entry(place(&row)).or_default().push(row);
    }
    groups
}

/// The rows of one of the sections.
fn read<R: QueryRow>(answers: &[SectionAnswer], section: &str) -> Outcome<Vec<R>> {
    match answers.iter().find(|answer| answer.section.name == section) {
        Some(answer) => R::read(section, &answer.rows),
        None => Ok(Vec::new()),
    }
}
