//! Subject of a report: the program, the GPUs, the date.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap::session::Session;

use stallmap_console::answer::rows;
use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::value::{self, NumberFormat};

/// The program of the first run, and every GPU that a run used.
const SUBJECT: &str = "\
SELECT r.program, r.arguments, d.name, CAST(date_trunc('second', to_timestamp_nanos(r.started_ns)) AS VARCHAR) AS started
FROM (SELECT * FROM run ORDER BY run_id LIMIT 1) r
LEFT JOIN (SELECT string_agg(DISTINCT name, ', ' ORDER BY name) AS name FROM device) d ON true";

/// One line about the subject. Empty if the capture has no run.
pub(super) async fn subject(session: &Session) -> Outcome<String> {
    let rows = rows(session, SUBJECT).await?;
    line(&rows).map_err(arrow_failure)
}

fn line(rows: &[RecordBatch]) -> Result<String, ArrowError> {
    let Some(batch) = rows.iter().find(|batch| batch.num_rows() > 0) else { return Ok(String::new()) };
    let cells = value::columns(batch, NumberFormat::Report)?;
    let cell = |column: usize| cells.get(column).and_then(|cells| cells.first()).map_or("-", String::as_str);
    let mut line = format!("{}{}", cell(0), arguments(cell(1)));
    if cell(2) != "-" {
        line.extend([" on ", cell(2)]);
    }
    Ok(format!("{line}, {} UTC", cell(3).replace('T', " ")))
}

/// The arguments as one would type them.
fn arguments(json: &str) -> String {
    let arguments: Vec<String> = serde_json::from_str(json).unwrap_or_default();
    let typed = |argument: String| {
        let is_plain = !argument.is_empty() && !argument.contains([' ', '\'', '"', '\\', '$', '\n', '\t']);
        if is_plain { format!(" {argument}") } else { format!(" '{}'", argument.replace('\'', "'\\''")) }
    };
    arguments.into_iter().map(typed).collect()
}

#[cfg(test)]
mod tests {
    use super::arguments;

    #[test]
    fn arguments_are_as_one_would_type_them() {
        assert_eq!(
            arguments(r#"["train.py","--name","a b","it's",""]"#),
            r" train.py --name 'a b' 'it'\''s' ''"
        );
        assert_eq!(arguments("no JSON"), "");
    }
}
