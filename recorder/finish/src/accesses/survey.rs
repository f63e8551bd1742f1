//! A first look at the frames of a launch: their number of records, instructions, and a sample of positions.

use rayon::prelude::*;
use stallmap_schema::capture::request::SLOT_BYTES;
use stallmap_schema::capture::segment::FrameRef;

use super::order::{Position, Widths, warp_number};
use super::places::{ByPc, Places};
use super::record;
use super::{Converted, Source};

/// Slots from one sampled record to the next: 4,096 samples for each piece that is sorted at once.
const SAMPLED_SLOTS: usize = 1024;

/// Requests of one instruction.
#[derive(Clone, Copy, Debug, Default)]
struct Executed {
    requests: u64,
    lanes: u64,
}

/// One frame.
pub(super) struct Surveyed {
    /// Its records, where they fit in memory.
    pub(super) records: Option<Vec<u8>>,
    /// Position of its first record in the launch.
    pub(super) first_sequence: u64,
    /// Its number of records.
    pub(super) count: u64,
    /// Greatest number of a warp.
    last_warp: u64,
    executed: Vec<(u64, Executed)>,
    sample: Vec<(u64, Position)>,
    lost: Option<&'static str>,
}

/// The frames of a launch.
pub(super) struct Survey {
    pub(super) frames: Vec<Surveyed>,
    pub(super) places: Places,
}

impl Survey {
    /// Reads every frame once, and holds the records on request.
    pub(super) fn new(source: &Source<'_>, holds: bool) -> Self {
        let mut frames: Vec<Surveyed> =
            source.frames.par_iter().map(|frame| Surveyed::new(source, frame, holds)).collect();
        let mut sequence = 0;
        for frame in &mut frames {
            frame.first_sequence = sequence;
            sequence += frame.count;
        }
        let pcs = frames.iter().flat_map(|frame| frame.executed.iter().map(|(pc, _)| *pc));
        let places = Places::new(pcs, |pc| source.code.find(pc, source.ordinal));
        Self { frames, places }
    }
}

/// Number of records that become rows, and of those that do not.
pub(super) fn counts(frames: &[Surveyed], places: &Places) -> Converted {
    let mut converted = Converted::default();
    for frame in frames {
        for (pc, executed) in &frame.executed {
            if let Some((function_id, _)) = places.rank(*pc).and_then(|rank| places.at(rank)) {
                converted.request_count += executed.requests;
                converted.lane_access_count += executed.lanes;
                converted.functions.insert(function_id);
            } else {
                let reason = "code of the instruction is not known";
                *converted.lost.entry(reason).or_default() += executed.requests;
            }
        }
        if let Some(reason) = frame.lost {
            // How many requests a damaged frame held is not known: at least one.
            *converted.lost.entry(reason).or_default() += 1;
        }
    }
    converted
}

/// Bits of the launch's positions.
pub(super) fn widths(frames: &[Surveyed], places: &Places) -> Widths {
    let count = frames.iter().map(|frame| frame.count).sum();
    let last_warp = frames.iter().map(|frame| frame.last_warp).max().unwrap_or(0);
    Widths::new(count, last_warp, places.len() as u64)
}

/// Positions that divide the records into so many parts of about equal bytes.
pub(super) fn borders(frames: &[Surveyed], places: &Places, parts: usize) -> Vec<Position> {
    let of_frame = |frame: &Surveyed| {
        let first = frame.first_sequence;
        let place = |(pc, position): &(u64, Position)| Some(position.placed(places.rank(*pc)?, first));
        frame.sample.iter().filter_map(place).collect::<Vec<_>>()
    };
    let mut sampled: Vec<Position> = frames.iter().flat_map(of_frame).collect();
    sampled.sort_unstable();
    (1..parts).filter_map(|part| sampled.get(sampled.len() * part / parts).copied()).collect()
}

impl Surveyed {
    fn new(source: &Source<'_>, place: &FrameRef, holds: bool) -> Self {
        let mut surveyed = Self {
            records: None,
            first_sequence: 0,
            count: 0,
            last_warp: 0,
            executed: Vec::new(),
            sample: Vec::new(),
            lost: None,
        };
        let Some(bytes) = super::records(source, place) else {
            surveyed.lost = Some("damaged frame");
            return surveyed;
        };
        let mut executed = ByPc::<Executed>::default();
        let mut next_sample = 0;
        for record in record::records(&bytes) {
            let Ok((start, record)) = record else {
                surveyed.lost = Some("malformed record");
                break;
            };
            let request = &record.request;
            let seen = executed.get_or(request.pc, Executed::default);
            seen.requests += 1;
            seen.lanes += u64::from(request.lane_mask.count_ones());
            surveyed.last_warp = surveyed.last_warp.max(warp_number(request));
            if start >= next_sample {
                surveyed.sample.push((request.pc, Position::new(0, request, surveyed.count)));
                next_sample = start + SAMPLED_SLOTS * SLOT_BYTES;
            }
            surveyed.count += 1;
        }
        surveyed.executed = executed.iter().map(|(pc, executed)| (pc, *executed)).collect();
        surveyed.records = holds.then_some(bytes);
        surveyed
    }
}
