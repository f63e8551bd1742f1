//! Lanes of processes and GPUs. With several ranks a rank stands in front of the number, as in `[rank 1] 0`: each rank
//! counts its own GPUs, and in containers its own processes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::RelativeClock;
use crate::timeline::CaptureTimeline;

/// The process of a lane. Kineto gives a GPU the process id of its ordinal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneProcess {
    rank: Option<u32>,
    number: i64,
}

impl LaneProcess {
    /// The lane of a GPU of the process. The rank of a number below 0 would not be found again.
    pub(super) const fn gpu(self, device: i64) -> Self {
        if self.rank.is_some() && device < 0 { self } else { Self { number: device, ..self } }
    }

    /// The process id.
    pub(super) fn value(self) -> Value {
        match self.rank {
            Some(rank) => json!(format!("[rank {rank}] {}", self.number)),
            None => json!(self.number),
        }
    }
}

impl RelativeClock<'_> {
    /// The lane of a process.
    pub(super) fn lane(&self, run_id: u32, process_id: i64) -> LaneProcess {
        LaneProcess { rank: self.ranks.of(run_id, Some(process_id)), number: process_id }
    }
}

/// Names of processes and GPUs.
pub(super) fn names(timeline: &CaptureTimeline) -> Vec<Value> {
    let name = |lane: LaneProcess, name: &str, labels: &str| {
        let event = |key: &str, arguments: Value| json!({"ph": "M", "name": key, "pid": lane.value(), "tid": 0, "ts": 0, "args": arguments});
        [event("process_name", json!({ "name": name })), event("process_labels", json!({ "labels": labels }))]
    };
    let programs = timeline.processes.iter().flat_map(|process| {
        let rank = timeline.ranks.of(process.run_id, None);
        name(LaneProcess { rank, number: process.id }, &process.program, "CPU")
    });
    let used = used(timeline);
    let gpus = timeline.devices.iter().flat_map(|device| {
        let lanes = used.iter().filter(|lane| lane.number == device.id).copied();
        let alone = LaneProcess { rank: None, number: device.id };
        let lanes: Vec<LaneProcess> = if used.is_empty() { vec![alone] } else { lanes.collect() };
        lanes.into_iter().flat_map(|lane| name(lane, &device.name, &format!("GPU {}", device.id)))
    });
    programs.chain(gpus).collect()
}

/// The lanes of GPUs that several ranks use. None with one rank.
fn used(timeline: &CaptureTimeline) -> BTreeSet<LaneProcess> {
    if !timeline.ranks.are_several() {
        return BTreeSet::new();
    }
    let lane = |run_id: u32, process_id: i64, device: i64| LaneProcess {
        rank: timeline.ranks.of(run_id, Some(process_id)),
        number: device,
    };
    let launches =
        timeline.launches.iter().map(|launch| lane(launch.run_id, launch.process_id, launch.device_id));
    let copies =
        timeline.copies.iter().filter_map(|copy| Some(lane(copy.run_id, copy.process_id, copy.device_id?)));
    launches.chain(copies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_stand_in_front_of_processes_and_gpus() {
        let values = |rank| {
            let process = LaneProcess { rank, number: 30 };
            [process.value(), process.gpu(0).value(), process.gpu(-1).value()]
        };
        assert_eq!(values(None), [json!(30), json!(0), json!(-1)]);
        assert_eq!(values(Some(1)), [json!("[rank 1] 30"), json!("[rank 1] 0"), json!("[rank 1] 30")]);
    }
}
