//! Conditions on a comparison, with the rows that they are about.

use stallmap::library::queries::diff as queries;
use stallmap_console::args::gate::ChangeCondition;
use stallmap_console::exit::{CommandFailure, NOT_COMPARABLE, Outcome};
use stallmap_console::output;
use stallmap_console::row::QueryRow as _;

use super::ask::ask;
use super::gate::JudgedCondition;
use super::query::DiffQuery;
use super::row::CompareRow;
use super::{CaptureComparison, draw, gate, row_gate, total_of, write};

impl CaptureComparison<'_> {
    /// The conditions with their results.
    pub(super) async fn judged(&self) -> Outcome<Vec<JudgedCondition>> {
        let mut judged = Vec::new();
        for gate in &self.args.gates {
            let (rows, unit) = self.gated(gate).await?;
            judged.push(gate::judge(gate, &rows, unit));
        }
        for file in &self.args.row_gates {
            judged.push(JudgedCondition {
                condition: output::path(file),
                rows: Vec::new(),
                total: None,
                unit: draw::DiffUnit::Number,
                failure: row_gate::failure(self.session, file).await?,
            });
        }
        Ok(judged)
    }

    /// All rows that a condition is about.
    async fn gated(&self, gate: &ChangeCondition) -> Outcome<(Vec<CompareRow>, draw::DiffUnit)> {
        let measure = self.decision.measure(gate.metric);
        if measure.is_scaled {
            let what = format!(
                "`{}` cannot be checked: a sample represents a different time in each capture",
                gate.text
            );
            return Err(CommandFailure::message(NOT_COMPARABLE, what).hint("use the metric time".to_owned()));
        }
        let total = total_of(gate.metric);
        if self.decision.unknown.contains(&total) {
            let reason = self.unknown(total).unwrap_or_else(|| "a capture lacks its data".to_owned());
            let what = format!("`{}` cannot be checked: {reason}", gate.text);
            return Err(CommandFailure::message(NOT_COMPARABLE, what));
        }
        let query = DiffQuery { is_all: true, ..self.query.clone() };
        let script = match gate.part {
            Some(part) => query.part(part, measure),
            None => query.totals(&self.decision.unknown),
        };
        let mut found = CompareRow::read(queries::COMPARE.name, &ask(self.session, &script).await?)?;
        if gate.part.is_none() {
            found.retain(|row| row.what == total);
        }
        Ok((found, write::unit(measure)))
    }
}
