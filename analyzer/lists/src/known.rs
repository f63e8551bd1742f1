//! Basis of a list of costs, printed before it: launches sampled, samples collected, losses.

use std::path::Path;

use stallmap::session::Session;

use stallmap::library::queries;
use stallmap_console::answer;
use stallmap_console::args::list::ListFormat;
use stallmap_console::exit::Outcome;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::{self, number};
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

/// Completeness of a capture's costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CostCompleteness {
    launches: f64,
    sampled_launches: f64,
    collected_samples: f64,
    lost_samples: f64,
    measured_launches: f64,
    /// The GPUs' names.
    pub gpus: String,
    /// Sampling periods in cycles.
    pub periods: String,
    is_lossy: bool,
}

rows! {
    /// A row of the query.
    struct CompletenessRow {
        launches: Option<f64>,
        sampled_launches: Option<f64>,
        collected_samples: Option<f64>,
        lost_samples: Option<f64>,
        measured_launches: Option<f64>,
        gpus: Option<String>,
        periods: Option<String>,
    }
}

rows! {
    /// A row of `sql/queries/report/losses.sql`.
    struct LostRow {
        reason: Option<String>,
    }
}

/// Begins of what an option leaves out, another tool never has, or an import does not read on purpose.
const OMITTED: [&str; 14] = [
    "not recorded: ",
    "not in the imported file: ",
    "launch was not selected",
    "trial of a tuner",
    "estimates of occupancy",
    "estimates of the operations of ops",
    "modules around ops as their arguments",
    "rows of the table `",
    "texts that the program gave to memory events",
    "begins and ends of annotations of the program",
    "events of category ",
    "keys of the imported file that are not read",
    "calls of the runtime and the driver that launch nothing",
    "allocations and frees of memory of the host",
];

/// True for a loss that an option wanted, that other tools do not record, or that is not of the program.
pub(crate) fn is_wanted(reason: &str) -> bool {
    OMITTED.iter().any(|start| reason.starts_with(start))
}

/// Queries the completeness.
pub(crate) async fn known(session: &Session) -> Outcome<CostCompleteness> {
    let query = queries::top::KNOWN;
    let found = CompletenessRow::read(query.name, &answer::asked(session, query, &query.sql(&[])).await?)?
        .into_iter()
        .next();
    let lost = answer::asked(session, queries::report::LOSSES, &queries::report::LOSSES.sql(&[])).await?;
    let lost = LostRow::read(queries::report::LOSSES.name, &lost)?;
    let is_lossy = lost.iter().any(|row| !is_wanted(row.reason.as_deref().unwrap_or_default()));
    Ok(found.map(|found| CostCompleteness::from_row(found, is_lossy)).unwrap_or_default())
}

impl CostCompleteness {
    fn from_row(found: CompletenessRow, is_lossy: bool) -> Self {
        Self {
            launches: found.launches.unwrap_or_default(),
            sampled_launches: found.sampled_launches.unwrap_or_default(),
            collected_samples: found.collected_samples.unwrap_or_default(),
            lost_samples: found.lost_samples.unwrap_or_default(),
            measured_launches: found.measured_launches.unwrap_or_default(),
            gpus: found.gpus.unwrap_or_default(),
            periods: found.periods.unwrap_or_default(),
            is_lossy,
        }
    }

    /// True if a launch was sampled.
    pub(crate) fn has_samples(&self) -> bool {
        self.collected_samples > 0.0
    }

    /// One line about the completeness of the costs.
    fn line(&self, capture: &str) -> String {
        let taken = self.collected_samples + self.lost_samples;
        let samples = if taken > 0.0 {
            let collected = number::percent(self.collected_samples / taken);
            let scaled = if self.periods.contains(',') { " (rows are scaled to one period)" } else { "" };
            format!("{collected} of {} samples collected{scaled}", number::measured(taken))
        } else {
            "no samples".to_owned()
        };
        let (known, launches) = (number::measured(self.sampled_launches), number::measured(self.launches));
        let noun = if launches == "1" { "launch" } else { "launches" };
        let times = self.times();
        format!("Coverage of {capture}: {known} of {launches} {noun} sampled, {samples}, {times}")
    }

    /// The basis of the times: measured or estimated.
    fn times(&self) -> String {
        if self.measured_launches == 0.0 {
            "times estimated".to_owned()
        } else if self.measured_launches < self.launches {
            let (measured, all) = (self.measured_launches, self.launches);
            format!("{} of {} times measured", number::measured(measured), number::measured(all))
        } else {
            "times measured".to_owned()
        }
    }

    /// Prints it before a list, on standard output. For programs, logs only losses, to standard error.
    pub(crate) fn say(&self, capture: &Path, format: ListFormat) -> Outcome<()> {
        let capture = output::path(capture);
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
            paint.text(TextRole::Warning, &format!("! {warning}"))
        } else {
            paint.text(TextRole::Good, "Nothing was lost.")
        };
        output::print(&format!("{}\n{lost}\n\n", self.line(&capture)))
    }
}
