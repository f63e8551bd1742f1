//! Time and memory of finalizing many launches under three passes, each launch with its op and eight rows of samples:
//! `cargo run --release -p stallmap-finish --example launches -- FOLDER LAUNCHES`.

#![expect(dead_code, clippy::unwrap_used, reason = "the recording of the tests")]

use std::fs;
use std::path::Path;
use std::time::Instant;

use stallmap_finish::finish;
use stallmap_schema::capture::recording::{ActivityName, RawActivity};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::word::{ActivityKind, Instrument};

#[path = "../tests/all/recording.rs"]
mod recording;
use recording::{KERNEL, fact, launch_run, put, sample, segment};

/// Launches of a batch of rows.
const BATCH: u64 = 4096;
/// Instructions of a launch with samples.
const SAMPLED: u32 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count] = &arguments[..] else { return Err("usage: launches FOLDER LAUNCHES".into()) };
    let count: u64 = count.parse()?;
    let partial = Path::new(folder).join("launches.stallmap.partial");
    fs::create_dir_all(&partial)?;
    accesses(&partial, count);
    samples(&partial, count);
    timeline(&partial, count);

    let began = Instant::now();
    let output = Path::new(folder).join("launches.stallmap");
    drop(fs::remove_file(&output));
    let summary = finish(&partial, &output, &|_| ())?;
    println!("{count} launches: {:.1} s, {} bytes", began.elapsed().as_secs_f64(), summary.bytes);
    let status = fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}

/// Ranges of ordinals.
fn batches(count: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..count.div_ceil(BATCH)).map(move |batch| batch * BATCH..count.min((batch + 1) * BATCH))
}

fn accesses(partial: &Path, count: u64) {
    let mut run = segment(partial, "run-accesses-10");
    recording::describe_run(&mut run, Instrument::Accesses, 10);
    recording::python(&mut run);
    for batch in batches(count) {
        put(&mut run, batch.clone().map(recording::op_row));
        put(&mut run, batch.clone().map(recording::launch));
        put(&mut run, batch.map(launch_run));
    }
    put(&mut run, [fact("clean_end", "true")]);
}

fn samples(partial: &Path, count: u64) {
    let mut run = segment(partial, "run-pc_samples-20");
    recording::describe_run(&mut run, Instrument::PcSamples, 20);
    for batch in batches(count) {
        put(&mut run, batch.clone().map(recording::op_row));
        put(&mut run, batch.clone().map(recording::launch));
        put(&mut run, batch.clone().map(called));
        let reason = "smsp__pcsamp_warps_issue_stalled_long_scoreboard";
        put(
            &mut run,
            batch
                .flat_map(|ordinal| (1..=SAMPLED).map(move |at| sample(ordinal, KERNEL, at * 16, reason, 3))),
        );
    }
    put(&mut run, [fact("clean_end", "true"), fact("sampling_period_cycles", "256")]);
}

fn timeline(partial: &Path, count: u64) {
    let mut run = segment(partial, "run-timeline-30");
    recording::describe_run(&mut run, Instrument::Timeline, 30);
    put(&mut run, [ActivityName { name_id: 1, name: KERNEL.into() }]);
    for batch in batches(count) {
        put(&mut run, batch.clone().map(recording::bare_launch));
        put(&mut run, batch.clone().map(called));
        put(&mut run, batch.map(activity));
    }
    put(&mut run, [fact("clean_end", "true")]);
}

/// A launch call with CUPTI's number.
fn called(ordinal: u64) -> LaunchRun {
    LaunchRun { correlation_id: Some(100 + ordinal), ..launch_run(ordinal) }
}

fn activity(ordinal: u64) -> RawActivity {
    let LaunchRun { begin_ns, end_ns, .. } = launch_run(ordinal);
    RawActivity {
        kind: ActivityKind::Kernel,
        correlation_id: 100 + ordinal,
        name_id: Some(1),
        context_number: 1,
        stream_number: Some(7),
        begin_ns,
        end_ns,
        device_id: Some(0),
        ..RawActivity::default()
    }
}
