//! Basis of a list of costs, printed before it: launches sampled, samples collected, losses.

use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use stallmap::session::Session;

use super::answer::rows;
use super::{arrow_failure, section};
use crate::args::list::ListFormat;
use crate::exit::{Failure, Outcome, QUERY};
use crate::output::paint::Role;
use crate::output::shorten::printable;
use crate::output::{self, number};

/// The query in `sql/top`.
pub(super) const NAME: &str = "known";

/// Completeness of a capture's costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    launches: f64,
    sampled_launches: f64,
    collected_samples: f64,
    lost_samples: f64,
    /// The GPUs' names.
    pub(super) gpus: String,
    /// Sampling periods in cycles.
    pub(super) periods: String,
    is_lossy: bool,
}

/// Queries the completeness.
pub(super) async fn known(session: &Session) -> Outcome<Known> {
    let mut known = Known::default();
    for section in section::sections("top", &[NAME]) {
        for batch in rows(session, &section.sql(&[])).await?.iter().filter(|batch| batch.num_rows() > 0) {
            known.read(batch)?;
        }
    }
    for section in section::sections("report", &["losses"]) {
        let lost = rows(session, &section.sql(&[])).await?;
        known.is_lossy = lost.iter().any(|batch| batch.num_rows() > 0);
    }
    Ok(known)
}

impl Known {
    fn read(&mut self, batch: &RecordBatch) -> Outcome<()> {
        self.launches = measured(batch, "launches")?;
        self.sampled_launches = measured(batch, "sampled_launches")?;
        self.collected_samples = measured(batch, "collected_samples")?;
        self.lost_samples = measured(batch, "lost_samples")?;
        self.gpus = word(batch, "gpus")?;
        self.periods = word(batch, "periods")?;
        Ok(())
    }

    /// One line about the completeness of the costs.
    fn line(&self, capture: &str) -> String {
        let taken = self.collected_samples + self.lost_samples;
        let samples = if taken > 0.0 {
            let collected = number::percent(self.collected_samples / taken);
            format!("{collected} of {} samples collected", number::measured(taken))
        } else {
            "no samples".to_owned()
        };
        let (known, launches) = (number::measured(self.sampled_launches), number::measured(self.launches));
        let noun = if launches == "1" { "launch" } else { "launches" };
        format!("Coverage of {capture}: {known} of {launches} {noun} sampled, {samples}")
    }

    /// Prints it before a list, on standard output. For programs, logs only losses, to standard error.
    pub(super) fn say(&self, capture: &Path, format: ListFormat) -> Outcome<()> {
        let capture = printable(&capture.display().to_string());
        let warning = format!(
            "the capture is incomplete; `stallmap report {capture} --section losses` lists the losses"
        );
        if format.for_programs().is_some() {
            if self.is_lossy {
                output::note(format_args!("warning: {warning}"));
            }
            return Ok(());
        }
        let paint = output::page().paint;
        let lost = if self.is_lossy {
            paint.text(Role::Warning, &format!("! {warning}"))
        } else {
            paint.text(Role::Good, "Nothing was lost.")
        };
        output::print(&format!("{}\n{lost}\n\n", self.line(&capture)))
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Outcome<&'a dyn Array> {
    let found = batch.column_by_name(name).map(AsRef::as_ref);
    found.ok_or_else(|| Failure::message(QUERY, format!("sql/top/{NAME}.sql has no column `{name}`")))
}

fn measured(batch: &RecordBatch, name: &str) -> Outcome<f64> {
    let array = cast(column(batch, name)?, &DataType::Float64).map_err(arrow_failure)?;
    Ok(array.as_primitive::<Float64Type>().iter().flatten().next().unwrap_or_default())
}

fn word(batch: &RecordBatch, name: &str) -> Outcome<String> {
    let array = cast(column(batch, name)?, &DataType::Utf8).map_err(arrow_failure)?;
    Ok(array.as_string::<i32>().iter().flatten().next().unwrap_or_default().to_owned())
}
