//! The passes over a large launch's frames: one where its entries fit in memory, or a first look and several rounds.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap_schema::capture::segment::FrameRef;
use stallmap_schema::id::KernelId;

use super::chunk::{Border, Chunk};
use super::columns::Columns;
use super::parts::{self, between, borders};
use super::piece::{Keep, Piece};
use super::{Converted, Limits, Memory, Source};

/// One of so many pieces is read in the first look, and one of so many of its records stays.
const LOOKED_AT: usize = 8;
const SAMPLED: u64 = 64;

/// A launch and the passes over its frames.
pub struct Passes<'a> {
    source: Source<'a>,
    limits: Limits,
    pieces: Vec<Range<usize>>,
    /// Position of each piece's first record in the launch. Empty until all were read once.
    sequences: Vec<u64>,
    /// Borders between rounds, each of them between two warps.
    borders: Vec<Border>,
    /// Rounds that have ended. `None` before the first look.
    ended: Option<usize>,
    /// Counts of the launch, once all pieces were read.
    pub converted: Converted,
}

impl<'a> Passes<'a> {
    /// For a launch.
    pub fn new(source: Source<'a>, limits: Limits) -> Self {
        let is_large = source.raw_bytes() > limits.held_bytes;
        Self {
            source,
            limits,
            pieces: pieces(source.frames, limits.piece_bytes),
            sequences: Vec::new(),
            borders: Vec::new(),
            ended: (!is_large).then_some(0),
            converted: Converted::default(),
        }
    }

    /// Number of pieces to read in the next pass.
    pub fn pieces(&self) -> usize {
        if self.ended.is_some() { self.pieces.len() } else { self.pieces.len().div_ceil(LOOKED_AT) }
    }

    /// Records to keep in the next pass. `None` at the end.
    pub fn next(&self) -> Option<Keep> {
        let Some(ended) = self.ended else { return Some(Keep::Every(SAMPLED)) };
        let (from, to) = between(&self.borders, ended);
        (ended <= self.borders.len()).then(|| match (from, to) {
            (None, None) => Keep::All,
            (from, to) => Keep::Between(from.copied(), to.copied()),
        })
    }

    /// Reads a piece.
    pub fn read(&self, piece: usize, keep: Keep, memory: &mut Memory) -> Piece {
        let piece = if self.ended.is_some() { piece } else { piece * LOOKED_AT };
        let frames = self.pieces.get(piece).and_then(|range| self.source.frames.get(range.clone()));
        Piece::read(&self.source, frames.unwrap_or_default(), keep, &mut memory.pieces)
    }

    /// Ends a pass with all pieces: entries in parts, unless it was the first look.
    pub fn end(&mut self, mut pieces: Vec<Piece>) -> Option<Sorted> {
        let Some(ended) = &mut self.ended else {
            let chunks = || pieces.iter().flat_map(|piece| &piece.chunks);
            // Sampled records share fewer patterns than all do, so this is the most that all can have, about.
            let bytes = chunks().map(Chunk::bytes).sum::<u64>() * SAMPLED * LOOKED_AT as u64;
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
        Some(Sorted {
            kernel_id,
            chunks: pieces.into_iter().flat_map(|piece| piece.chunks).collect(),
            borders,
        })
    }
}

/// Entries of a launch, cut into parts.
pub struct Sorted {
    kernel_id: KernelId,
    chunks: Vec<Chunk>,
    borders: Vec<Border>,
}

impl Sorted {
    /// Number of parts.
    pub fn parts(&self) -> usize {
        if self.chunks.is_empty() { 0 } else { self.borders.len() + 1 }
    }

    /// Rows of a part.
    pub fn batch(&self, part: usize, memory: &mut Memory) -> Result<RecordBatch, ArrowError> {
        let mut columns = Columns::default();
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
