//! Selection of a kernel: by name, by a part of it, by a pattern, by its identity, or the hottest.

use arrow::array::RecordBatch;
use regex::Regex;
use stallmap::session::Session;

use stallmap::library::queries;
use stallmap_console::answer::answers;
use stallmap_console::exit::{Failure, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::number::measured;
use stallmap_console::output::shorten::{Shorten, printable, shorten};
use stallmap_console::row::Row as _;
use stallmap_console::rows;

/// Kernels that a message lists.
const MOST_LISTED: usize = 12;
/// Columns of a name in a message.
const NAME_WIDTH: usize = 90;

rows! {
    /// A kernel of the capture.
    #[derive(Clone, Debug)]
    struct Kernel {
        function_id: u64,
        name: Option<String> as "kernel",
        full_name: Option<String>,
        samples: f64,
    }
}

/// The hottest of the requested kernels, by default of all. None if the capture has no kernels.
pub(super) async fn choose(session: &Session, wanted: Option<&str>) -> Outcome<Option<u64>> {
    let answers = answers(session, &[queries::source::KERNELS], &[]).await?;
    let batches: Vec<RecordBatch> = answers.into_iter().flat_map(|answer| answer.rows).collect();
    let kernels = Kernel::read(queries::source::KERNELS.name, &batches)?;
    let Some(wanted) = wanted else { return Ok(kernels.first().map(|kernel| kernel.function_id)) };
    let found = find(&kernels, wanted)?;
    match found.as_slice() {
        [kernel] => Ok(Some(kernel.function_id)),
        [] => Err(Failure::message(USAGE, format!("no kernel `{wanted}`")).hint(others(&kernels))),
        [hottest, ..] => {
            let count = found.len();
            output::note(format!(
                "{count} kernels match `{wanted}`: the hottest is shown.{}",
                listed(&found)
            ));
            Ok(Some(hottest.function_id))
        }
    }
}

/// The matching kernels: by identity, else by label or full name, else by a part of one, else by a pattern.
fn find(kernels: &[Kernel], wanted: &str) -> Outcome<Vec<Kernel>> {
    let named = |is_meant: &dyn Fn(&str) -> bool| -> Vec<Kernel> {
        let is_named = |kernel: &&Kernel| {
            [&kernel.name, &kernel.full_name].into_iter().flatten().any(|name| is_meant(name))
        };
        kernels.iter().filter(is_named).cloned().collect()
    };
    let id = wanted
        .strip_prefix("0x")
        .map_or_else(|| wanted.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
    let by_id: Vec<Kernel> =
        kernels.iter().filter(|kernel| Some(kernel.function_id) == id).cloned().collect();
    if !by_id.is_empty() {
        return Ok(by_id);
    }
    let whole = named(&|name| name == wanted);
    let part = if whole.is_empty() { named(&|name| name.contains(wanted)) } else { whole };
    if !part.is_empty() {
        return Ok(part);
    }
    let pattern = Regex::new(wanted)
        .map_err(|_| Failure::message(USAGE, format!("no kernel `{wanted}`")).hint(others(kernels)))?;
    Ok(named(&|name| pattern.is_match(name)))
}

/// Kernels as a hint.
fn others(kernels: &[Kernel]) -> String {
    format!("name one of these, or its identity:{}", listed(kernels))
}

/// Kernels, a line each.
fn listed(kernels: &[Kernel]) -> String {
    let mut text = String::new();
    for kernel in kernels.iter().take(MOST_LISTED) {
        let name = kernel.name.as_deref().unwrap_or("(unnamed)");
        let name = shorten(&printable(&name.replace('\n', " ")), NAME_WIDTH, Shorten::Middle);
        let samples = measured(kernel.samples);
        text.extend([format!("\n  {:#018x}  {samples:>9} samples  {name}", kernel.function_id)]);
    }
    if kernels.len() > MOST_LISTED {
        text.extend([format!("\n  other ({})", kernels.len() - MOST_LISTED)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wanted: &str, expected: &[u64]) {
        let kernel = |function_id, name: &str, label: &str| Kernel {
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
        let found = find(&kernels, wanted).unwrap();
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
