//! Slices of threads: begins and ends that stand apart in the file.
//!
//! PyTorch writes all begins of a group and then all their ends, in the same order: the n-th end belongs to the n-th begin.
//! Other programs write packets in the order of time: an end belongs to the last open begin of its track. A file in which
//! the time of a track runs backward is of the first kind.

use std::collections::{HashMap, VecDeque};

use crate::formats::proto::{ProtoReader, ProtoValue};

use super::event::TraceEvent;

/// Most levels of tracks inside of tracks.
const MAX_LEVELS: usize = 16;

/// One packet of a track.
#[derive(Debug)]
pub(super) enum TrackPacket {
    Begin(TraceEvent),
    End,
    /// An event without a length.
    Point(TraceEvent),
}

/// A track: that of a process, of a thread, or inside of one.
#[derive(Clone, Copy, Debug, Default)]
struct PacketTrack {
    parent: u64,
    /// Process and thread.
    thread: Option<(i64, i64)>,
}

/// The packets of all tracks, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct TrackPackets {
    marks: Vec<(u64, i64, TrackPacket)>,
    tracks: HashMap<u64, PacketTrack>,
    /// The time of the last packet of each track.
    last: HashMap<u64, i64>,
    is_grouped: bool,
}

impl TrackPackets {
    /// Adds the descriptor of a track.
    pub(super) fn describe(&mut self, message: ProtoReader<'_>) -> Result<(), String> {
        let (mut number, mut track) = (0, PacketTrack::default());
        for field in message {
            match field? {
                (1, ProtoValue::Number(value)) => number = value,
                (4, ProtoValue::Message(thread)) => {
                    let process = thread.number(1)?.unwrap_or(0).cast_signed();
                    track.thread = Some((process, thread.number(2)?.unwrap_or(0).cast_signed()));
                }
                (5, ProtoValue::Number(parent)) => track.parent = parent,
                _ => {}
            }
        }
        self.tracks.insert(number, track);
        Ok(())
    }

    /// Adds a packet.
    pub(super) fn add(&mut self, track: u64, time_ns: i64, mark: TrackPacket) {
        let last = self.last.insert(track, time_ns);
        self.is_grouped |= last.is_some_and(|last| last > time_ns);
        self.marks.push((track, time_ns, mark));
    }

    /// Gives events their ends and threads. Returns the number of begins and ends without a partner.
    pub(super) fn join(mut self, mut visit: impl FnMut(TraceEvent)) -> u64 {
        let marks = std::mem::take(&mut self.marks);
        let mut open: HashMap<u64, VecDeque<TraceEvent>> = HashMap::new();
        let mut without = 0;
        for (track, time_ns, mark) in marks {
            match mark {
                TrackPacket::Begin(event) => open.entry(track).or_default().push_back(event),
                TrackPacket::Point(event) => {
                    visit(TraceEvent { phase: "i".to_owned(), ..self.placed(track, event) });
                }
                TrackPacket::End => {
                    let of_track = open.entry(track).or_default();
                    let event = if self.is_grouped { of_track.pop_front() } else { of_track.pop_back() };
                    let Some(event) = event else {
                        without += 1;
                        continue;
                    };
                    let length = event.begin_ns.map(|begin| time_ns.saturating_sub(begin));
                    let duration_ns = length.filter(|length| *length >= 0);
                    let is_of_wrong_length = length.is_some() && duration_ns.is_none();
                    let event = self.placed(track, event);
                    visit(TraceEvent { phase: "X".to_owned(), duration_ns, is_of_wrong_length, ..event });
                }
            }
        }
        without + open.values().map(|events| events.len() as u64).sum::<u64>()
    }

    /// The event with the process and the thread of its track.
    fn placed(&self, track: u64, event: TraceEvent) -> TraceEvent {
        let mut number = track;
        for _ in 0..MAX_LEVELS {
            let Some(track) = self.tracks.get(&number) else { break };
            if let Some((process, thread)) = track.thread {
                return TraceEvent { thread: (process.to_string(), thread.to_string()), ..event };
            }
            number = track.parent;
        }
        TraceEvent { thread: (String::new(), format!("track {track}")), ..event }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spans of slices by name, from (track, time, name). An end has no name.
    fn joined(marks: &[(u64, i64, &str)]) -> Vec<String> {
        let mut slices = TrackPackets::default();
        for (track, time, name) in marks {
            let event =
                TraceEvent { name: (*name).to_owned(), begin_ns: Some(*time), ..TraceEvent::default() };
            slices.add(
                *track,
                *time,
                if name.is_empty() { TrackPacket::End } else { TrackPacket::Begin(event) },
            );
        }
        let mut found = Vec::new();
        let span = |event: &TraceEvent| {
            event.begin_ns.zip(event.duration_ns).map(|(begin, length)| (begin, begin + length))
        };
        slices.join(|event| found.push(format!("{} {:?}", event.name, span(&event).unwrap())));
        found.sort();
        found
    }

    #[test]
    fn ends_of_groups_are_in_the_order_of_their_begins() {
        // A slice without a length inside of another one, and slices that touch.
        let marks = [
            (1, 0, "a"),
            (1, 5, "b"),
            (1, 5, "c"),
            (2, 1, "d"),
            (1, 5, ""),
            (1, 5, ""),
            (1, 9, ""),
            (2, 4, ""),
        ];
        assert_eq!(
            joined(&[&marks[..], &[(1, 3, "e"), (1, 4, "")]].concat()),
            ["a (0, 5)", "b (5, 5)", "c (5, 9)", "d (1, 4)", "e (3, 4)"]
        );
    }

    #[test]
    fn slices_that_end_before_they_begin_have_no_length() {
        let mut slices = TrackPackets::default();
        slices.add(1, 9, TrackPacket::Begin(TraceEvent { begin_ns: Some(9), ..TraceEvent::default() }));
        slices.add(1, 4, TrackPacket::End);
        let mut found = Vec::new();
        slices.join(|event| found.push((event.duration_ns, event.is_of_wrong_length)));
        assert_eq!(found, [(None, true)]);
    }

    #[test]
    fn ends_in_the_order_of_time_close_the_last_begin() {
        let marks = [
            (1, 0, "a"),
            (1, 2, "b"),
            (2, 1, "c"),
            (1, 3, ""),
            (1, 3, "d"),
            (1, 9, ""),
            (1, 9, ""),
            (2, 8, ""),
        ];
        assert_eq!(joined(&marks), ["a (0, 9)", "b (2, 3)", "c (1, 8)", "d (3, 9)"]);
    }
}
