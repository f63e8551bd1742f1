//! Finalizing of the recording's folder into the capture, with progress, then a summary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use stallmap_finish::error::FinishError;
use stallmap_finish::summary::{BundleSummary, FinishProgress, FinishSummary, RunSummary};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::word::{Instrument, ReplayResult};
use stallmap_write::CaptureWriter;

use crate::exit::RecorderFailure;
use crate::folder;
use crate::message::{self, MessagePrinter};

/// Maximum number of losses in messages. The capture's table has all of them.
const NAMED_LOSSES: usize = 5;

/// Writes the capture, and reports its content and its losses.
pub(crate) fn finish(
    partial: &Path,
    output: &Path,
    force: bool,
    messages: MessagePrinter,
) -> Result<(), RecorderFailure> {
    merge(&[partial], output, force, messages)
}

/// Writes one capture of the recordings in several folders.
pub(crate) fn merge(
    partials: &[&Path],
    output: &Path,
    force: bool,
    messages: MessagePrinter,
) -> Result<(), RecorderFailure> {
    // The program may have made a file of that name.
    folder::check_output(output, force)?;
    let bar = progress_bar(messages);
    let replaced = output.symlink_metadata().is_ok();
    let place = if replaced { next_to(output) } else { output.to_owned() };
    let report = |progress| show(&bar, progress);
    let finished = match partials {
        [partial] => stallmap_finish::finish(partial, &place, &report),
        partials => stallmap_finish::merge(partials, &place, &report),
    };
    bar.finish_and_clear();
    let summary = finished.map_err(failure)?;
    if replaced {
        replace(&place, output)?;
    }
    messages.result(written(&summary, output));
    for warning in warnings(&summary) {
        message::warning(warning);
    }
    Ok(())
}

/// Writes a capture with the replays in `folder` added to those of `capture`; it may replace it.
pub(crate) fn append(
    capture: &Path,
    folder: &Path,
    output: &Path,
    messages: MessagePrinter,
) -> Result<(), RecorderFailure> {
    let bar = progress_bar(messages);
    let place = next_to(output);
    let appended = stallmap_finish::append(capture, folder, &place, &|progress| show(&bar, progress));
    bar.finish_and_clear();
    let summary = appended.map_err(failure)?;
    replace(&place, output)?;
    messages.result(written(&summary, output));
    warnings(&summary).into_iter().for_each(message::warning);
    Ok(())
}

/// Files that an end in the middle of writing leaves.
pub(crate) fn leftovers(output: &Path) -> Vec<PathBuf> {
    let place = next_to(output);
    vec![CaptureWriter::staging(output), CaptureWriter::staging(&place), place]
}

/// Replaces the old capture with a complete new one.
fn replace(place: &Path, output: &Path) -> Result<(), RecorderFailure> {
    let renamed = fs::rename(place, output).with_context(|| format!("replace `{}`", output.display()));
    renamed.map_err(|error| {
        drop(fs::remove_file(place));
        RecorderFailure::not_written(error)
    })
}

/// A name in the same folder that nothing else uses.
fn next_to(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    PathBuf::from(name)
}

fn failure(error: FinishError) -> RecorderFailure {
    let hint = error.hint();
    let failure = RecorderFailure::not_written(anyhow::Error::new(error).context("write the capture"));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

pub(crate) fn progress_bar(messages: MessagePrinter) -> ProgressBar {
    if messages.0.quiet {
        return ProgressBar::hidden();
    }
    // Hidden by itself if stderr is not a terminal.
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn show(bar: &ProgressBar, progress: FinishProgress) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
    bar.set_message(progress.stage);
}

/// One line about the capture.
fn written(summary: &FinishSummary, output: &Path) -> String {
    let of = |instrument: Instrument| summary.runs.iter().filter(move |run| run.run.instrument == instrument);
    let sum = |instrument, count: fn(&RunSummary) -> u64| of(instrument).map(count).sum::<u64>();
    let mut parts = Vec::new();
    if of(Instrument::Accesses).next().is_some() {
        let launches = sum(Instrument::Accesses, |run| run.launch_count);
        let requests = sum(Instrument::Accesses, |run| run.request_count);
        let lanes = sum(Instrument::Accesses, |run| run.lane_access_count);
        let counted = sum(Instrument::Accesses, |run| run.counted.request_count);
        let counted_lanes = sum(Instrument::Accesses, |run| run.counted.lane_access_count);
        let is_counted = counted > 0;
        let (all, all_lanes) = if is_counted { (counted, counted_lanes) } else { (requests, lanes) };
        let [launches, all, all_lanes] = [launches, all, all_lanes].map(grouped);
        parts.push(format!("{launches} launches, {all_lanes} accesses in {all} warp requests"));
        if is_counted {
            parts.push(format!("{} of them one by one", grouped(requests)));
        }
    }
    if of(Instrument::PcSamples).next().is_some() {
        let launches = sum(Instrument::PcSamples, |run| run.launch_count);
        let samples = sum(Instrument::PcSamples, |run| run.sample_count);
        parts.push(format!("{} samples of {} launches", grouped(samples), grouped(launches)));
    }
    if of(Instrument::Timeline).next().is_some() {
        parts
            .push(format!("{} measured times", grouped(sum(Instrument::Timeline, |run| run.activity_count))));
    }
    if of(Instrument::Blocks).next().is_some() {
        parts.push(format!("times of {} blocks", grouped(sum(Instrument::Blocks, |run| run.block_count))));
    }
    parts.extend(bundles(&summary.bundles));
    parts.extend(replays(&summary.runs));
    let bytes = grouped(summary.bytes);
    format!("wrote `{}`, {bytes} bytes: {}", output.display(), parts.join("; "))
}

/// Number of the launches selected for replay that can be replayed.
fn bundles(bundles: &BundleSummary) -> Option<String> {
    let [whole, selected] = [bundles.bundle_count, bundles.selected_count].map(grouped);
    let bytes = grouped(bundles.content_bytes);
    (bundles.selected_count > 0)
        .then(|| format!("{whole} bundles of {selected} selected launches, {bytes} bytes of memory"))
}

/// Summary of the replays' results.
fn replays(runs: &[RunSummary]) -> Option<String> {
    let mut results: BTreeMap<ReplayResult, u64> = BTreeMap::new();
    for (result, count) in runs.iter().flat_map(|run| &run.replays) {
        *results.entry(*result).or_default() += count;
    }
    let of_result = |(result, count): (&ReplayResult, &u64)| format!("{} {}", grouped(*count), result.word());
    let named: Vec<String> = results.iter().map(of_result).collect();
    let all = grouped(results.values().sum());
    let counters = grouped(runs.iter().map(|run| run.counter_count).sum());
    let counted = if counters == "0" { String::new() } else { format!("; {counters} counters") };
    (!named.is_empty()).then(|| format!("{all} replays: {}{counted}", named.join(", ")))
}

/// Launches that were selected for replay and cannot be replayed, by reason.
fn refusals(bundles: &BundleSummary) -> Vec<String> {
    let mut refusals: Vec<(&String, &u64)> = bundles.refusals.iter().collect();
    refusals.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
    let selected = grouped(bundles.selected_count);
    let line = |(reason, count): (&String, &u64)| {
        format!("{} of {selected} selected launches cannot be replayed: {reason}", grouped(*count))
    };
    refusals.into_iter().map(line).collect()
}

/// Warnings for the user of the capture.
fn warnings(summary: &FinishSummary) -> Vec<String> {
    let mut warnings = Vec::new();
    // Experiments are no launches of the program, and neither are the replays that count their instructions.
    let is_experiment = summary.runs.iter().any(|run| run.experiment_count > 0);
    // Helpers of a program, such as compilers and loaders, launch nothing.
    let has_launches = |instrument: Instrument| {
        summary.runs.iter().any(|run| run.run.instrument == instrument && run.launch_count > 0)
    };
    for run in &summary.runs {
        let (word, process) = (run.run.instrument.word(), run.run.process_id);
        let is_helper = has_launches(run.run.instrument);
        if run.launch_count == 0 && run.replays.is_empty() && !is_experiment && !is_helper {
            warnings.push(format!("no launches seen in the {word} run of process {process}"));
        }
        if run.unmatched_launch_count > 0 {
            let [unmatched, all] = [run.unmatched_launch_count, run.launch_count].map(grouped);
            warnings.push(format!(
                "{unmatched} of {all} launches of the {word} run match none of the accesses run"
            ));
        }
    }
    warnings.extend(refusals(&summary.bundles));
    warnings.extend(lost(&summary.losses));
    warnings
}

/// The largest losses, those of one kind and reason together.
fn lost(losses: &[Loss]) -> Vec<String> {
    let mut sums: Vec<(&str, &str, u64)> = Vec::new();
    for loss in losses {
        let (kind, reason) = (loss.kind.word(), loss.reason.as_str());
        match sums.iter_mut().find(|sum| (sum.0, sum.1) == (kind, reason)) {
            Some(sum) => sum.2 += loss.lost_count,
            None => sums.push((kind, reason, loss.lost_count)),
        }
    }
    sums.sort_by_key(|&(kind, reason, count)| (std::cmp::Reverse(count), kind, reason));
    let named = sums.iter().take(NAMED_LOSSES);
    let mut lines: Vec<String> = named
        .map(|(kind, reason, count)| format!("not recorded: {} x {kind}: {reason}", grouped(*count)))
        .collect();
    if sums.len() > NAMED_LOSSES {
        lines.push(format!(
            "not recorded: {} reasons more, in the capture's table `loss`",
            sums.len() - NAMED_LOSSES
        ));
    }
    lines
}

/// A number with its thousands set apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use stallmap_schema::id::RunId;
    use stallmap_schema::word::LossKind;

    use super::*;

    fn loss(kind: LossKind, reason: &str, lost_count: u64) -> Loss {
        Loss { run_id: RunId(0), kind, reason: reason.into(), lost_count, kernel_id: None, detail: None }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 35_651_584].map(grouped), ["0", "999", "1,000", "35,651,584"]);
    }

    #[test]
    fn bundles_and_refusals_are_counted() {
        let refusals_of = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect::<BTreeMap<_, _>>()
        };
        let summary = BundleSummary {
            selected_count: 1200,
            bundle_count: 1197,
            content_bytes: 4_096_000,
            refusals: refusals_of(&[("device-side launch", 1), ("peer memory", 2)]),
        };
        let line = "1,197 bundles of 1,200 selected launches, 4,096,000 bytes of memory";
        assert_eq!(bundles(&summary).as_deref(), Some(line));
        assert_eq!(
            refusals(&summary),
            [
                "2 of 1,200 selected launches cannot be replayed: peer memory",
                "1 of 1,200 selected launches cannot be replayed: device-side launch",
            ]
        );
        assert_eq!(bundles(&BundleSummary::default()), None);
    }

    #[test]
    fn losses_are_summed_and_the_largest_named() {
        let mut losses = vec![loss(LossKind::Access, "blocks", 5), loss(LossKind::Access, "blocks", 6)];
        losses.push(loss(LossKind::Launch, "selection", 9000));
        assert_eq!(
            lost(&losses),
            ["not recorded: 9,000 x launch: selection", "not recorded: 11 x access: blocks"]
        );
        losses.extend((0..5).map(|number| loss(LossKind::Op, &format!("reason {number}"), 1)));
        let lines = lost(&losses);
        assert_eq!(
            (lines.len(), lines[5].as_str()),
            (6, "not recorded: 2 reasons more, in the capture's table `loss`")
        );
    }
}
