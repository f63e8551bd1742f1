//! Names that a shell completes: sections, and what the capture on the command line holds.
//!
//! A capture can come from anyone, and a shell runs what it completes. Only names of plain characters are offered.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use clap_complete::CompletionCandidate;
use stallmap::library::user::UserLibrary;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;

use crate::answer::fresh_rows;
use crate::context::runtime;
use crate::library::VARIABLE;
use crate::names::SessionNames;
use crate::row::QueryRow as _;
use crate::rows;

/// The sections of the report, in its order.
pub const SECTIONS: [&str; 15] = [
    "wrong", "findings", "tensors", "why", "kernels", "blocks", "lines", "ops", "memory", "path", "ranks",
    "counters", "replays", "losses", "coverage",
];

/// Kernels by samples.
const KERNELS: &str = "SELECT n.short_kernel AS label FROM kernel_name n \
     LEFT JOIN pc_sample s ON s.function_id = n.function_id GROUP BY n.function_id, n.short_kernel \
     ORDER BY sum(s.samples) DESC NULLS LAST, n.short_kernel";

rows! {
    /// A kernel.
    struct KernelCompletion {
        label: Option<String>,
    }
}

/// The sections of the report.
pub(crate) fn sections() -> Vec<CompletionCandidate> {
    candidates(SECTIONS.map(str::to_owned))
}

/// The kernels of the capture, the hottest first.
pub(crate) fn kernels() -> Vec<CompletionCandidate> {
    let found = session().and_then(|session| {
        let rows = runtime().ok()?.block_on(fresh_rows(&session, KERNELS)).ok()?;
        KernelCompletion::read("kernels", &rows).ok()
    });
    let labels = found.unwrap_or_default().into_iter().filter_map(|kernel| kernel.label);
    // A part of a name selects a kernel, so the part before `<` or `[` is enough.
    candidates(labels.map(|label| label.split(|char| !is_plain(char)).next().unwrap_or_default().to_owned()))
}

/// The tables and views of the capture.
pub(crate) fn relations() -> Vec<CompletionCandidate> {
    let names = session().and_then(|session| SessionNames::from_session(&session).ok()).unwrap_or_default();
    candidates(names.relations().map(str::to_owned))
}

/// The user's saved queries.
pub(crate) fn queries() -> Vec<CompletionCandidate> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let named = words.iter().position(|word| word == "--library").and_then(|at| words.get(at + 1).cloned());
    let folder = named.or_else(|| std::env::var_os(VARIABLE));
    let library = folder.and_then(|folder| UserLibrary::read(Path::new(&folder)).ok());
    let queries = library.iter().flat_map(UserLibrary::queries);
    candidates(queries.map(|query| query.name.clone()))
}

/// The first local capture on the command line. Its statements run without a cache.
fn session() -> Option<Session> {
    let capture = std::env::args_os().skip(1).find(|word| {
        let path = Path::new(word);
        path.extension().is_some_and(|ending| ending == "stallmap") && path.exists()
    })?;
    Session::open(&[(None, CaptureLocation::from(capture).to_path_buf())]).ok()
}

/// Plain names in the given order, each once.
fn candidates(names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let mut seen = BTreeSet::new();
    let is_offered =
        |name: &String| !name.is_empty() && name.chars().all(is_plain) && seen.insert(name.clone());
    let names = names.into_iter().filter(is_offered);
    names.enumerate().map(|(at, name)| CompletionCandidate::new(name).display_order(Some(at))).collect()
}

const fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_run_are_not_offered() {
        let names = ["gather", "$(reboot)", "a;b", "", "gather", "x y", "_b1"].map(str::to_owned);
        let offered = candidates(names);
        assert_eq!(offered.iter().map(CompletionCandidate::get_value).collect::<Vec<_>>(), ["gather", "_b1"]);
    }
}
