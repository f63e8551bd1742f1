//! The passes over a large launch's frames: one where its entries fit in memory, or a first look and several rounds.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap_schema::capture::segment::FrameRef;
use stallmap_schema::id::KernelId;

use super::chunk::{RequestChunk, RowBorder};
use super::columns::RequestColumns;
use super::parts::{self, between, borders};
use super::piece::{FramePiece, RecordFilter};
use super::{ConversionLimits, ConversionMemory, ConvertedLaunch, LaunchSource};

/// One of so many pieces is read in the first look, and one of so many of its records stays.
const LOOKED_AT: usize = 8;
const SAMPLED: u64 = 64;

/// A launch and the passes over its frames.
pub struct FramePasses<'a> {
    source: LaunchSource<'a>,
    limits: ConversionLimits,
    pieces: Vec<Range<usize>>,
    /// Position of each piece's first record in the launch. Empty until all were read once.
    sequences: Vec<u64>,
    /// Borders between rounds, each of them between two warps.
    borders: Vec<RowBorder>,
    /// Rounds that have ended. `None` before the first look.
    ended: Option<usize>,
    /// Counts of the launch, once all pieces were read.
    pub converted: ConvertedLaunch,
}

impl<'a> FramePasses<'a> {
    /// For a launch.
    pub fn new(source: LaunchSource<'a>, limits: ConversionLimits) -> Self {
        let is_large = source.raw_bytes() > limits.held_bytes;
        Self {
            source,
            limits,
            pieces: pieces(source.frames, limits.piece_bytes),
            sequences: Vec::new(),
            borders: Vec::new(),
            ended: (!is_large).then_some(0),
            converted: ConvertedLaunch::default(),
        }
    }

    /// Number of pieces to read in the next pass.
    pub fn pieces(&self) -> usize {
        if self.ended.is_some() { self.pieces.len() } else { self.pieces.len().div_ceil(LOOKED_AT) }
    }

    /// Records to keep in the next pass. `None` at the end.
    pub fn next(&self) -> Option<RecordFilter> {
        let Some(ended) = self.ended else { return Some(RecordFilter::Every(SAMPLED)) };
        let (from, to) = between(&self.borders, ended);
        (ended <= self.borders.len()).then(|| match (from, to) {
            (None, None) => RecordFilter::All,
            (from, to) => RecordFilter::Between(from.copied(), to.copied()),
        })
    }

    /// Reads a piece.
    pub fn read(&self, piece: usize, keep: RecordFilter, memory: &mut ConversionMemory) -> FramePiece {
        let piece = if self.ended.is_some() { piece } else { piece * LOOKED_AT };
        let frames = self.pieces.get(piece).and_then(|range| self.source.frames.get(range.clone()));
        FramePiece::read(&self.source, frames.unwrap_or_default(), keep, &mut memory.pieces)
    }

    /// Ends a pass with all pieces: entries in parts, unless it was the first look.
    pub fn end(&mut self, mut pieces: Vec<FramePiece>) -> Option<SortedParts> {
        let Some(ended) = &mut self.ended else {
            let chunks = || pieces.iter().flat_map(|piece| &piece.chunks);
            // Sampled records share fewer patterns than all do, so this is the most that all can have, about.
            let bytes = chunks().map(RequestChunk::bytes).sum::<u64>() * SAMPLED * LOOKED_AT as u64;
            let rounds = usize::try_from(bytes.div_ceil(self.limits.held_bytes)).unwrap_or(usize::MAX);
            self.borders = borders(chunks(), rounds);
            for border in &mut self.borders {
                border.sequence = 0;
            }
            self.borders.dedup();
            self.ended = Some(0);
            return None;
        };
        if self.sequences.is_empty() {
            let mut sequence = 0;
            for piece in &pieces {
                piece.count(&mut self.converted);
                self.sequences.push(sequence);
                sequence += piece.count;
            }
        }
        for (piece, sequence) in pieces.iter_mut().zip(&self.sequences) {
            piece.follow(*sequence);
        }
        let chunks = || pieces.iter().flat_map(|piece| &piece.chunks);
        *ended += 1;
        let rows: usize = chunks().map(|chunk| chunk.entries.len()).sum();
        let borders = borders(chunks(), rows.div_ceil(self.limits.part_rows));
        let kernel_id = self.source.kernel_id;
        Some(SortedParts {
            kernel_id,
            chunks: pieces.into_iter().flat_map(|piece| piece.chunks).collect(),
            borders,
        })
    }
}

/// Entries of a launch, cut into parts.
pub struct SortedParts {
    kernel_id: KernelId,
    chunks: Vec<RequestChunk>,
    borders: Vec<RowBorder>,
}

impl SortedParts {
    /// Number of parts.
    pub fn parts(&self) -> usize {
        if self.chunks.is_empty() { 0 } else { self.borders.len() + 1 }
    }

    /// Rows of a part.
    pub fn batch(&self, part: usize, memory: &mut ConversionMemory) -> Result<RecordBatch, ArrowError> {
        let mut columns = RequestColumns::default();
        let between = between(&self.borders, part);
        parts::append(&self.chunks, between, self.kernel_id, &mut memory.parts, &mut columns);
        columns.finish()
    }
}

/// Frames in pieces of about so many bytes of records.
fn pieces(frames: &[FrameRef], most_bytes: u64) -> Vec<Range<usize>> {
    let (mut pieces, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (at, frame) in frames.iter().enumerate() {
        if at > begin && bytes + u64::from(frame.raw_bytes) > most_bytes {
            pieces.push(begin..at);
            (begin, bytes) = (at, 0);
        }
        bytes += u64::from(frame.raw_bytes);
    }
    if begin < frames.len() {
        pieces.push(begin..frames.len());
    }
    pieces
}
