//! Counts of the data that a part of a capture lacks.

use std::collections::BTreeMap;

use super::{CaptureSubset, OptionalPart};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::cell::ColumnCell;
use stallmap_schema::id::RunId;
use stallmap_schema::tables;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::replay::Bundle;
use stallmap_schema::tables::run::Run;
use stallmap_schema::word::LossKind;

/// The reason of losses that are not the recorder's: the user shared only a part.
pub const REASON: &str = "left out by pack";

/// A launch whose rows of accesses are left out counts its requests as lost.
pub(crate) fn lose_requests(row: &mut LaunchRun) {
    if let Some(requests) = row.request_count.filter(|requests| *requests > 0) {
        row.lost_request_count = Some(row.lost_request_count.unwrap_or(0).saturating_add(requests));
        (row.request_count, row.lane_access_count) = (Some(0), Some(0));
    }
}

/// Counts by run and kind, with their description.
type LossCounts = BTreeMap<(RunId, LossKind, &'static str), u64>;

impl CaptureSubset {
    /// A row for each run and kind of data that is left out.
    pub(super) fn losses(&self, reader: &CaptureReader) -> Result<Vec<Loss>, CaptureError> {
        let mut counts = LossCounts::new();
        self.count_launches(reader, &mut counts)?;
        let first = reader.read_rows::<Run>()?.first().map_or(RunId(0), |run| run.run_id);
        if self.is_without(OptionalPart::Bundles) {
            reader.for_each_row(usize::MAX, |bundle: Bundle| {
                if bundle.refusal.is_none() && self.has_launch(bundle.kernel_id.0) {
                    *counts.entry((bundle.run_id, LossKind::Bundle, "bundles")).or_default() += 1;
                }
            })?;
        }
        if self.is_without(OptionalPart::Code) {
            let cubins = reader.manifest().files.iter().filter(|file| entry::is_cubin(&file.path)).count();
            counts.insert((first, LossKind::Code, "cubins"), cubins as u64);
        }
        let mut losses: Vec<Loss> = counts
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|((run_id, kind, what), lost_count)| loss(run_id, kind, lost_count, what))
            .collect();
        losses.extend(
            self.emptied(reader)
                .map(|(table, rows)| loss(first, LossKind::Source, rows, &format!("rows of table {table}"))),
        );
        Ok(losses)
    }

    fn count_launches(&self, reader: &CaptureReader, counts: &mut LossCounts) -> Result<(), CaptureError> {
        let unsampled = self.sample_sums(reader)?;
        reader.for_each_row(usize::MAX, |row: LaunchRun| {
            let mut add = |kind, what, count| *counts.entry((row.run_id, kind, what)).or_default() += count;
            if !self.has_launch(row.kernel_id.0) {
                add(LossKind::Launch, "launches", 1);
            } else if self.is_without(OptionalPart::Accesses) {
                add(LossKind::Access, "warp requests", row.request_count.unwrap_or(0));
            }
        })?;
        for (run, samples) in unsampled {
            *counts.entry((run, LossKind::Sample, "samples")).or_default() += samples;
        }
        Ok(())
    }

    /// Samples of selected launches by run, where samples are omitted.
    fn sample_sums(&self, reader: &CaptureReader) -> Result<BTreeMap<RunId, u64>, CaptureError> {
        let mut sums = BTreeMap::new();
        if !self.is_without(OptionalPart::Samples) {
            return Ok(sums);
        }
        let columns = ["run_id", "kernel_id", "samples"];
        for batch in reader.read_columns("pc_sample", &columns)? {
            let batch = batch?;
            let [Some(run), Some(kernel), Some(samples)] = columns.map(|name| batch.column_by_name(name))
            else {
                continue;
            };
            for row in 0..batch.num_rows() {
                let retained = u64::read(kernel, row).is_some_and(|kernel| self.has_launch(kernel));
                if let Some((run, samples)) =
                    RunId::read(run, row).zip(u64::read(samples, row)).filter(|_| retained)
                {
                    *sums.entry(run).or_default() += samples;
                }
            }
        }
        Ok(sums)
    }

    /// Emptied tables whose rows are not counted otherwise.
    fn emptied<'a>(&'a self, reader: &'a CaptureReader) -> impl Iterator<Item = (&'a str, u64)> {
        let counted = [OptionalPart::Accesses, OptionalPart::Samples, OptionalPart::Bundles]
            .map(OptionalPart::tables)
            .concat();
        let tables = reader.tables().iter().filter(|table| table.rows > 0);
        let gone = tables.filter(move |table| {
            !self.retained.contains(&table.name) && !counted.contains(&table.name.as_str())
        });
        gone.map(|table| (tables::by_name(&table.name).map_or(table.name.as_str(), |t| t.name), table.rows))
    }
}

fn loss(run_id: RunId, kind: LossKind, lost_count: u64, what: &str) -> Loss {
    let detail = Some(what.to_owned());
    Loss { run_id, kind, reason: REASON.to_owned(), lost_count, kernel_id: None, detail }
}
