//! The releases of stallmap's parts, which must be one: recorder, library, analyzer, Python package.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use super::check::DoctorCheck;
use crate::args::ProbedPart;
use crate::{injection, probe};

/// This program's release.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// One check of all parts. `package` is the release of the Python package. Absent parts are named, and are no problem.
pub(crate) fn check(library: Option<&Path>, package: Option<String>) -> DoctorCheck {
    let library = injection::find(library).and_then(|path| {
        let version = probe::in_a_process(ProbedPart::Library, &path).map_err(anyhow::Error::msg)?;
        Ok(version.as_str().map(str::to_owned))
    });
    check_of(&[
        ("stallmap-record", Some(OWN.to_owned())),
        ("library", library.ok().flatten()),
        ("stallmap", analyzer()),
        ("Python package", package),
    ])
}

fn check_of(parts: &[(&str, Option<String>)]) -> DoctorCheck {
    let text = |(name, version): &(&str, Option<String>)| {
        version.as_ref().map_or_else(|| format!("no {name}"), |version| format!("{name} {version}"))
    };
    let detail = parts.iter().map(text).collect::<Vec<_>>().join(", ");
    if parts.iter().filter_map(|(_, version)| version.as_deref()).all(|version| version == OWN) {
        return DoctorCheck::ok("release", &[], detail);
    }
    DoctorCheck::problem(
        "release",
        &[],
        detail,
        "install one release of all parts: `pip install --upgrade stallmap`",
    )
}

/// The release of the analyzer: next to this program, else on PATH.
fn analyzer() -> Option<String> {
    let name = "stallmap";
    let here = env::current_exe().and_then(fs::canonicalize).ok();
    let neighbour = here.and_then(|path| Some(path.parent()?.join(name))).filter(|path| path.is_file());
    let program = neighbour.unwrap_or_else(|| PathBuf::from(name));
    let printed = probe::output(Command::new(program).arg("--version"), Duration::from_secs(30)).ok()?;
    printed.trim().strip_prefix("stallmap ").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckState;
    use super::*;

    fn parts(library: Option<&str>, package: Option<&str>) -> DoctorCheck {
        let own = |text: Option<&str>| text.map(str::to_owned);
        check_of(&[
            ("stallmap-record", own(Some(OWN))),
            ("library", own(library)),
            ("stallmap", None),
            ("Python package", own(package)),
        ])
    }

    #[test]
    fn parts_of_one_release_are_right_and_absent_ones_are_named() {
        let check = parts(Some(OWN), None);
        let expected = format!("stallmap-record {OWN}, library {OWN}, no stallmap, no Python package");
        assert_eq!((check.state, check.detail), (CheckState::Ok, expected));
    }

    #[test]
    fn a_part_of_another_release_is_a_problem() {
        assert_eq!(parts(Some(OWN), Some("0.0.1")).state, CheckState::Problem);
        assert_eq!(parts(Some("9.0.0"), Some(OWN)).state, CheckState::Problem);
    }
}
