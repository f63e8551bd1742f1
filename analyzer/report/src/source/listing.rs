//! A kernel's code with everything known of it: the rows of `sql/queries/source/`, by instruction and by line.

use std::collections::BTreeMap;

use stallmap_console::answer::Answer;
use stallmap_console::exit::Outcome;
use stallmap_console::row::Row;
use stallmap_console::rows;

/// An instruction: its function and its pc.
pub(super) type Place = (u64, u64);

rows! {
    /// The kernel.
    #[derive(Clone, Debug)]
    pub(super) struct Kernel {
        /// Its name as the programmer wrote it.
        pub(super) name: String as "kernel",
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
        /// Instructions; none where the code was not read.
        pub(super) instructions: Option<u64>,
        /// Those that are not known.
        pub(super) unknown_instructions: Option<u64>,
        /// Why the code was not read.
        pub(super) not_read_because: Option<String>,
    }
}

rows! {
    /// A source line that has instructions.
    #[derive(Clone, Debug)]
    pub(super) struct Line {
        /// The file as the compiler was given it.
        pub(super) file: String,
        /// The line.
        pub(super) number: u32 as "line",
        /// Samples that found warps at its instructions.
        pub(super) samples: f64,
        /// Samples charged to its loads and stores.
        pub(super) charged_samples: f64,
    }
}

rows! {
    /// An instruction.
    #[derive(Clone, Debug)]
    pub(super) struct Instruction {
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
        /// What it does; none where the code was not read.
        pub(super) text: Option<String>,
        /// Its guard.
        pub(super) guard: Option<String>,
        /// Registers that it writes.
        pub(super) writes: Option<String>,
        /// Registers that it reads.
        pub(super) reads: Option<String>,
        /// What it does to memory.
        pub(super) memory_kind: Option<String>,
        /// Samples that found warps at it.
        pub(super) samples: f64,
        /// Samples charged to it.
        pub(super) charged_samples: f64,
        /// Its warp requests; none where none was observed.
        pub(super) requests: Option<f64>,
        /// Sectors that they touch.
        pub(super) sectors: Option<f64>,
        /// The fewest sectors that could hold those bytes.
        pub(super) ideal_sectors: Option<f64>,
    }
}

rows! {
    /// Samples of an instruction for one reason.
    #[derive(Clone, Debug)]
    pub(super) struct Reason {
        function_id: u64,
        pc: u64,
        /// The reason.
        pub(super) name: String as "stall_reason",
        /// The samples.
        pub(super) samples: f64,
    }
}

rows! {
    /// For whom a stalled instruction waited.
    #[derive(Clone, Debug)]
    pub(super) struct Producer {
        function_id: u64,
        pc: u64,
        /// Why it stalled.
        pub(super) stall_reason: String,
        from_function_id: Option<u64> as "producer_function_id",
        from_pc: Option<u64> as "producer_pc",
        /// What it is where there is no producer.
        pub(super) remainder: Option<String>,
        /// Samples times the weight.
        pub(super) samples: f64,
        /// How sure it is.
        pub(super) confidence: Option<String>,
    }
}

rows! {
    /// For whom an instruction can wait.
    #[derive(Clone, Debug)]
    pub(super) struct Wait {
        function_id: u64,
        pc: u64,
        producer_function_id: u64,
        producer_pc: u64,
        /// How the two depend on each other.
        pub(super) link: String,
    }
}

rows! {
    /// What an instruction touches.
    #[derive(Clone, Debug)]
    pub(super) struct Touch {
        function_id: u64,
        pc: u64,
        /// The tensor, the storage or the allocation; in parentheses what is none.
        pub(super) tensor: String,
        /// Its type and shape.
        pub(super) kind: Option<String> as "type",
        /// Where it was made.
        pub(super) born_at: Option<String>,
        /// Its part of the instruction's sectors; none where that follows from the code.
        pub(super) share: Option<f64>,
    }
}

impl Instruction {
    /// Where it is.
    pub(super) const fn place(&self) -> Place {
        (self.function_id, self.pc)
    }

    /// Where its line is.
    pub(super) fn source(&self) -> Option<(&str, u32)> {
        Some((self.file.as_deref()?, self.line?))
    }
}

impl Producer {
    /// The instruction that produces; none in a remainder.
    pub(super) fn producer(&self) -> Option<Place> {
        Some((self.from_function_id.unwrap_or(self.function_id), self.from_pc?))
    }
}

impl Wait {
    /// The instruction that produces.
    pub(super) const fn producer(&self) -> Place {
        (self.producer_function_id, self.producer_pc)
    }
}

/// Everything, with what belongs to an instruction found by its place.
#[derive(Debug)]
pub(super) struct Listing {
    /// The kernel.
    pub(super) kernel: Kernel,
    /// Its lines, hottest first; none where its code has no lines.
    pub(super) lines: Vec<Line>,
    /// Its instructions, in order.
    pub(super) instructions: Vec<Instruction>,
    places: BTreeMap<Place, usize>,
    reasons: BTreeMap<Place, Vec<Reason>>,
    producers: BTreeMap<Place, Vec<Producer>>,
    waits: BTreeMap<Place, Vec<Wait>>,
    touches: BTreeMap<Place, Vec<Touch>>,
}

impl Listing {
    /// The listing that answers make; none where the capture has no launch of the kernel.
    pub(super) fn of(answers: &[Answer]) -> Outcome<Option<Self>> {
        let Some(kernel) = read::<Kernel>(answers, "kernel")?.into_iter().next() else { return Ok(None) };
        let instructions: Vec<Instruction> = read(answers, "instructions")?;
        let places = instructions.iter().enumerate().map(|(at, row)| (row.place(), at)).collect();
        Ok(Some(Self {
            kernel,
            lines: read(answers, "lines")?,
            instructions,
            places,
            reasons: grouped(read(answers, "reasons")?, |row: &Reason| (row.function_id, row.pc)),
            producers: grouped(read(answers, "producers")?, |row: &Producer| (row.function_id, row.pc)),
            waits: grouped(read(answers, "waits")?, |row: &Wait| (row.function_id, row.pc)),
            touches: grouped(read(answers, "tensors")?, |row: &Touch| (row.function_id, row.pc)),
        }))
    }

    /// An instruction and its position.
    pub(super) fn find(&self, place: Place) -> Option<(usize, &Instruction)> {
        let at = *self.places.get(&place)?;
        Some((at, self.instructions.get(at)?))
    }

    /// Its samples by reason, most first.
    pub(super) fn reasons(&self, place: Place) -> &[Reason] {
        self.reasons.get(&place).map_or(&[], Vec::as_slice)
    }

    /// For whom it waited, most first.
    pub(super) fn producers(&self, place: Place) -> &[Producer] {
        self.producers.get(&place).map_or(&[], Vec::as_slice)
    }

    /// For whom it can wait.
    pub(super) fn waits(&self, place: Place) -> &[Wait] {
        self.waits.get(&place).map_or(&[], Vec::as_slice)
    }

    /// What it touches, most first.
    pub(super) fn touches(&self, place: Place) -> &[Touch] {
        self.touches.get(&place).map_or(&[], Vec::as_slice)
    }

    /// A count of samples as a part of the kernel's.
    pub(super) fn share(&self, samples: f64) -> f64 {
        if self.kernel.samples > 0.0 { samples / self.kernel.samples } else { 0.0 }
    }
}

fn grouped<R>(rows: Vec<R>, place: impl Fn(&R) -> Place) -> BTreeMap<Place, Vec<R>> {
    let mut groups: BTreeMap<Place, Vec<R>> = BTreeMap::new();
    for row in rows {
        groups.entry(place(&row)).or_default().push(row);
    }
    groups
}

/// The rows of one of the sections.
fn read<R: Row>(answers: &[Answer], section: &str) -> Outcome<Vec<R>> {
    match answers.iter().find(|answer| answer.section.name == section) {
        Some(answer) => R::read(section, &answer.rows),
        None => Ok(Vec::new()),
    }
}
