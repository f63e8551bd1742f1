//! From launches to paths: the names between the root and a launch.

use std::collections::HashMap;

use super::cost::{CaptureSide, LaunchCost, PairedCosts};
use stallmap_console::args::tree::{FrameName, TreeLevel};

/// One launch from the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PathLaunch {
    /// The names of each category, callers first. None if the launch has none.
    pub(super) frames: Vec<String>,
    /// See [`TreeLevel::User`].
    pub(super) user_frames: Vec<String>,
    /// See [`TreeLevel::Forward`].
    pub(super) forward_frames: Vec<String>,
    /// See [`TreeLevel::Module`].
    pub(super) module: Vec<String>,
    /// See [`TreeLevel::Phase`].
    pub(super) phase: Option<String>,
    /// See [`TreeLevel::Step`].
    pub(super) step: Option<String>,
    /// See [`TreeLevel::Range`].
    pub(super) ranges: Vec<String>,
    /// See [`TreeLevel::Op`].
    pub(super) ops: Vec<String>,
    /// See [`TreeLevel::Kernel`].
    pub(super) kernel: Option<String>,
    /// Its cost.
    pub(super) cost: LaunchCost,
    /// True if it has samples with an unknown time.
    pub(super) lacks_time: bool,
}

/// One name at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathStep {
    /// The level.
    pub(super) level: TreeLevel,
    /// The name.
    pub(super) name: String,
}

/// The path of one launch: steps by their number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LaunchPath {
    /// Callers first.
    pub(super) steps: Vec<usize>,
    /// Cost of the launch.
    pub(super) cost: PairedCosts,
}

/// The paths of all launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LaunchPaths {
    /// Every step that a path has.
    pub(super) steps: Vec<PathStep>,
    /// The paths.
    pub(super) paths: Vec<LaunchPath>,
}

/// Numbers steps in order of appearance.
#[derive(Default)]
struct StepNumbers {
    steps: Vec<PathStep>,
    known: Vec<(TreeLevel, HashMap<String, usize>)>,
}

impl PathLaunch {
    fn names(&self, level: TreeLevel) -> &[String] {
        match level {
            TreeLevel::Python => &self.frames,
            TreeLevel::User => &self.user_frames,
            TreeLevel::Forward => &self.forward_frames,
            TreeLevel::Module => &self.module,
            TreeLevel::Phase => self.phase.as_slice(),
            TreeLevel::Step => self.step.as_slice(),
            TreeLevel::Range => &self.ranges,
            TreeLevel::Op => &self.ops,
            TreeLevel::Kernel => self.kernel.as_slice(),
        }
    }
}

/// The paths of launches of one or two captures. A category without launches is omitted. If only some launches lack it,
/// they share a name in parentheses.
pub(super) fn paths(
    launches: &[(CaptureSide, Vec<PathLaunch>)],
    levels: &[TreeLevel],
    form: FrameName,
) -> LaunchPaths {
    let all =
        || launches.iter().flat_map(|(side, launches)| launches.iter().map(move |launch| (*side, launch)));
    let levels: Vec<TreeLevel> = levels
        .iter()
        .copied()
        .filter(|&level| all().any(|(_, launch)| !launch.names(level).is_empty()))
        .collect();
    let mut numbers = StepNumbers::default();
    let mut paths = Vec::new();
    for (side, launch) in all() {
        let mut steps = Vec::new();
        for &level in &levels {
            let names = launch.names(level);
            if names.is_empty() {
                steps.push(numbers.number(level, nothing(level)));
            }
            steps.extend(names.iter().map(|name| match level {
                TreeLevel::Python | TreeLevel::User | TreeLevel::Forward => {
                    numbers.number(level, &frame(name, form))
                }
                _ => numbers.number(level, name),
            }));
        }
        paths.push(LaunchPath { steps, cost: PairedCosts::of(side, launch.cost) });
    }
    LaunchPaths { steps: numbers.steps, paths }
}

impl StepNumbers {
    fn number(&mut self, level: TreeLevel, name: &str) -> usize {
        let at = self.known.iter().position(|(known, _)| *known == level).unwrap_or_else(|| {
            self.known.push((level, HashMap::new()));
            self.known.len() - 1
        });
        let known = &mut self.known[at].1;
        if let Some(&number) = known.get(name) {
            return number;
        }
        let number = self.steps.len();
        known.insert(name.to_owned(), number);
        self.steps.push(PathStep { level, name: name.to_owned() });
        number
    }
}

/// Name of launches without a category.
const fn nothing(level: TreeLevel) -> &'static str {
    match level {
        TreeLevel::Python | TreeLevel::User => "(no Python stack)",
        TreeLevel::Forward => "(no forward op)",
        TreeLevel::Module => "(outside modules)",
        TreeLevel::Phase | TreeLevel::Step | TreeLevel::Op => "(outside any operator)",
        TreeLevel::Range => "(outside of ranges)",
        TreeLevel::Kernel => "(unknown kernel)",
    }
}

/// A frame `file:line function`, named as requested. Only frames are split: names of ops have colons, too.
fn frame(text: &str, form: FrameName) -> String {
    let parts = text.rsplit_once(' ').and_then(|(place, function)| {
        let (file, line) = place.rsplit_once(':')?;
        Some((file, line, function))
    });
    match (form, parts) {
        (FrameName::FunctionLine, Some((_, line, function))) => format!("{function}:{line}"),
        (FrameName::FileFunction, Some((file, _, function))) => format!("{file} {function}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(frames: &[&str], ops: &[&str]) -> PathLaunch {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        PathLaunch { frames: texts(frames), ops: texts(ops), ..PathLaunch::default() }
    }

    fn named(launches: Vec<PathLaunch>, levels: &[TreeLevel], form: FrameName) -> Vec<Vec<String>> {
        let paths = paths(&[(CaptureSide::After, launches)], levels, form);
        let name = |step: &usize| paths.steps[*step].name.clone();
        paths.paths.iter().map(|path| path.steps.iter().map(name).collect()).collect()
    }

    #[test]
    fn a_level_that_nobody_has_is_left_out_and_one_that_some_lack_is_named() {
        let launches = vec![launch(&["a.py:1 f"], &[]), launch(&[], &[])];
        let levels = [TreeLevel::Python, TreeLevel::Op];
        let expected = [["a.py:1 f"], ["(no Python stack)"]];
        assert_eq!(named(launches, &levels, FrameName::FileFunctionLine), expected);
    }

    #[test]
    fn only_frames_are_renamed() {
        let launches = || vec![launch(&["dir a/b.py:12 main.<locals>.<lambda>"], &["aten::conv2d"])];
        let levels = [TreeLevel::Python, TreeLevel::Op];
        let short = [["main.<locals>.<lambda>:12", "aten::conv2d"]];
        assert_eq!(named(launches(), &levels, FrameName::FunctionLine), short);
        let lineless = [["dir a/b.py main.<locals>.<lambda>", "aten::conv2d"]];
        assert_eq!(named(launches(), &levels, FrameName::FileFunction), lineless);
    }
}
