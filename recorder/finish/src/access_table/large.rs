//! A large launch while it is converted: the stage of its present pass.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use stallmap_write::requests::{
    ConversionLimits, ConversionMemory, ConvertedLaunch, FramePasses, FramePiece, LaunchSource, RecordFilter,
    SortedParts,
};

/// A launch on its way through its passes.
pub(super) struct LargeLaunch<'a> {
    stage: LargeStage<'a>,
    /// Parts of the passes before this one.
    parts: usize,
}

enum LargeStage<'a> {
    /// Pieces are read.
    Reading {
        passes: Arc<FramePasses<'a>>,
        keep: RecordFilter,
        begun: usize,
        read: Vec<Option<FramePiece>>,
        left: usize,
    },
    /// A thread makes parts of the pieces.
    Between,
    /// Parts are written.
    Writing { passes: FramePasses<'a>, sorted: Arc<SortedParts>, begun: usize, left: usize },
    /// After the last pass.
    Ended(FramePasses<'a>),
}

/// Work for one thread.
pub(super) enum LargeStep<'a> {
    Read(PieceRead<'a>),
    Write(PartWrite),
}

/// A piece to read.
pub(super) struct PieceRead<'a> {
    passes: Arc<FramePasses<'a>>,
    keep: RecordFilter,
    at: usize,
}

/// A part to write.
pub(super) struct PartWrite {
    sorted: Arc<SortedParts>,
    at: usize,
    /// Its position among all parts of the launch.
    pub(super) part: usize,
}

/// All pieces of a pass.
pub(super) struct PiecePass<'a>(FramePasses<'a>, Vec<FramePiece>);

impl PieceRead<'_> {
    /// Reads it.
    pub(super) fn piece(self, memory: &mut ConversionMemory) -> (usize, FramePiece) {
        (self.at, self.passes.read(self.at, self.keep, memory))
    }
}

impl PartWrite {
    /// Its rows.
    pub(super) fn batch(&self, memory: &mut ConversionMemory) -> Result<RecordBatch, ArrowError> {
        self.sorted.batch(self.at, memory)
    }
}

impl<'a> PiecePass<'a> {
    /// Makes parts, unless it was the first look.
    pub(super) fn end(self) -> (FramePasses<'a>, Option<SortedParts>) {
        let Self(mut passes, pieces) = self;
        let sorted = passes.end(pieces);
        (passes, sorted)
    }
}

impl<'a> LargeLaunch<'a> {
    pub(super) fn new(source: LaunchSource<'a>, limits: ConversionLimits) -> Self {
        Self { stage: LargeStage::from_passes(FramePasses::new(source, limits)), parts: 0 }
    }

    /// The next step that no thread does yet.
    pub(super) fn step(&mut self) -> Option<LargeStep<'a>> {
        match &mut self.stage {
            LargeStage::Reading { passes, keep, begun, read, .. } if *begun < read.len() => {
                let at = *begun;
                *begun += 1;
                Some(LargeStep::Read(PieceRead { passes: Arc::clone(passes), keep: *keep, at }))
            }
            LargeStage::Writing { sorted, begun, .. } if *begun < sorted.parts() => {
                let at = *begun;
                *begun += 1;
                Some(LargeStep::Write(PartWrite { sorted: Arc::clone(sorted), at, part: self.parts + at }))
            }
            _ => None,
        }
    }

    /// Adds a piece that was read. After the last one, its thread ends the pass.
    pub(super) fn add(&mut self, (at, piece): (usize, FramePiece)) -> Option<PiecePass<'a>> {
        let LargeStage::Reading { read, left, .. } = &mut self.stage else { return None };
        if let Some(slot) = read.get_mut(at) {
            *slot = Some(piece);
        }
        *left -= 1;
        if *left > 0 {
            return None;
        }
        match std::mem::replace(&mut self.stage, LargeStage::Between) {
            // All threads that read have let go of it.
            LargeStage::Reading { passes, read, .. } => {
                Some(PiecePass(Arc::into_inner(passes)?, read.into_iter().flatten().collect()))
            }
            _ => None,
        }
    }

    /// Goes on after the end of a pass.
    pub(super) fn go_on(&mut self, (passes, sorted): (FramePasses<'a>, Option<SortedParts>)) {
        self.stage = match sorted.filter(|sorted| sorted.parts() > 0) {
            Some(sorted) => {
                let left = sorted.parts();
                LargeStage::Writing { passes, sorted: Arc::new(sorted), begun: 0, left }
            }
            None => LargeStage::from_passes(passes),
        };
    }

    /// Counts a part that was written.
    pub(super) fn wrote(&mut self) {
        let LargeStage::Writing { left, sorted, .. } = &mut self.stage else { return };
        *left -= 1;
        if *left == 0 {
            self.parts += sorted.parts();
            if let LargeStage::Writing { passes, .. } =
                std::mem::replace(&mut self.stage, LargeStage::Between)
            {
                self.stage = LargeStage::from_passes(passes);
            }
        }
    }

    /// The number of parts, and the counts, after the last pass.
    pub(super) fn end(&mut self) -> Option<(usize, Vec<ConvertedLaunch>)> {
        let LargeStage::Ended(passes) = &mut self.stage else { return None };
        Some((self.parts, vec![std::mem::take(&mut passes.converted)]))
    }
}

impl<'a> LargeStage<'a> {
    /// The beginning of the next pass.
    fn from_passes(passes: FramePasses<'a>) -> Self {
        let left = passes.pieces();
        match passes.next() {
            Some(keep) => {
                let read = std::iter::repeat_with(|| None).take(left).collect();
                Self::Reading { passes: Arc::new(passes), keep, begun: 0, read, left }
            }
            None => Self::Ended(passes),
        }
    }
}
