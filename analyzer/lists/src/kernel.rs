//! Selection of kernels: by name, by a part of it, by a pattern, by identity, or the hottest.

use regex::Regex;
use stallmap::session::Session;

use crate::filter::LaunchFilter;
use stallmap::library::queries;
use stallmap_console::answer;
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::number::measured;
use stallmap_console::output::shorten::{ShortenSide, printable, shorten};
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

/// Kernels that a message lists.
const MAX_LISTED: usize = 12;
/// Columns of a name in a message.
const NAME_WIDTH: usize = 90;

rows! {
    /// A kernel of the capture.
    #[derive(Clone, Debug)]
    pub struct CaptureKernel {
        /// Its function.
        pub function_id: u64,
        /// Its label.
        pub name: Option<String> as "kernel",
        /// Its full name.
        pub full_name: Option<String>,
        /// Samples of all its launches.
        pub samples: f64,
    }
}

/// The kernels of a capture, the hottest first.
///
/// # Errors
/// Fails if the query fails.
pub async fn kernels(session: &Session) -> Outcome<Vec<CaptureKernel>> {
    let query = queries::source::KERNELS;
    CaptureKernel::read(query.name, &answer::rows(session, &query.sql(&[])).await?)
}

/// The hottest of the kernels that a filter chooses, by default of all. None if the capture has no kernels.
///
/// # Errors
/// Fails if the query fails.
pub async fn choose(session: &Session, filter: Option<&LaunchFilter>) -> Outcome<Option<u64>> {
    let Some(filter) = filter else {
        return Ok(kernels(session).await?.first().map(|kernel| kernel.function_id));
    };
    let query = queries::source::KERNELS;
    let rows = answer::fresh_kept_rows(session, &filter.sql(&query.sql(&[]))).await?;
    let found = CaptureKernel::read(query.name, &rows)?;
    if found.len() > 1 {
        output::note(format!(
            "{} kernels match {}: the hottest is shown.{}",
            found.len(),
            filter.words(),
            listed(&found)
        ));
    }
    Ok(found.first().map(|kernel| kernel.function_id))
}

/// The matching kernels: by identity, else by label or full name, else by a part of one, else by a pattern.
///
/// # Errors
/// Fails if no kernel matches, with the hottest kernels as a hint.
pub fn find(kernels: &[CaptureKernel], wanted: &str) -> Outcome<Vec<CaptureKernel>> {
    let found = matching(kernels, wanted);
    if found.is_empty() {
        return Err(CommandFailure::message(USAGE, format!("no kernel `{wanted}`")).hint(others(kernels)));
    }
    Ok(found)
}

fn matching(kernels: &[CaptureKernel], wanted: &str) -> Vec<CaptureKernel> {
    let named = |is_meant: &dyn Fn(&str) -> bool| -> Vec<CaptureKernel> {
        let is_named = |kernel: &&CaptureKernel| {
            [&kernel.name, &kernel.full_name].into_iter().flatten().any(|name| is_meant(name))
        };
        kernels.iter().filter(is_named).cloned().collect()
    };
    let id = wanted
        .strip_prefix("0x")
        .map_or_else(|| wanted.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    let by_id: Vec<CaptureKernel> =
        kernels.iter().filter(|kernel| Some(kernel.function_id) == id).cloned().collect();
    if !by_id.is_empty() {
        return by_id;
    }
    let whole = named(&|name| name == wanted);
    let part = if whole.is_empty() { named(&|name| name.contains(wanted)) } else { whole };
    if !part.is_empty() {
        return part;
    }
    // A text that is no pattern matches nothing.
    Regex::new(wanted).map(|pattern| named(&|name| pattern.is_match(name))).unwrap_or_default()
}

/// Kernels as a hint.
fn others(kernels: &[CaptureKernel]) -> String {
    format!("name one of these, or its identity:{}", listed(kernels))
}

/// Kernels, a line each.
fn listed(kernels: &[CaptureKernel]) -> String {
    let mut text = String::new();
    for kernel in kernels.iter().take(MAX_LISTED) {
        let name = kernel.name.as_deref().unwrap_or("(unnamed)");
        let name = shorten(&printable(&name.replace('\n', " ")), NAME_WIDTH, ShortenSide::Middle);
        let samples = measured(kernel.samples);
        text.extend([format!("\n  {:#018x}  {samples:>9} samples  {name}", kernel.function_id)]);
    }
    if kernels.len() > MAX_LISTED {
        text.extend([format!("\n  other ({})", kernels.len() - MAX_LISTED)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: &str, expected: &[u64]) {
        let kernel = |function_id, name: &str, label: &str| CaptureKernel {
            function_id,
            name: Some(label.to_owned()),
            full_name: Some(name.to_owned()),
            samples: 1.0,
        };
        let kernels = [
            kernel(10, "add", "add"),
            kernel(11, "add_strided", "add_strided"),
            kernel(12, "void gemm<float>(int)", "gemm[f32]"),
        ];
        let found = matching(&kernels, wanted);
        let found: Vec<u64> = found.iter().map(|kernel| kernel.function_id).collect();
        assert_eq!(found, expected, "{wanted}");
    }

    #[test]
    fn kernels_are_meant_by_identity_name_part_or_pattern() {
        check("add", &[10]);
        check("stri", &[11]);
        check("dd", &[10, 11]);
        check("gemm<float>(", &[12]);
        check("gemm.*int", &[12]);
        check("gemm[f32]", &[12]);
        check("^a.*d$", &[10, 11]);
        check("0xc", &[12]);
        check("10", &[10]);
        check("nothing", &[]);
    }

    #[test]
    fn a_name_that_is_no_pattern_is_no_kernel() {
        assert!(find(&[], "nothing(").is_err());
    }
}
