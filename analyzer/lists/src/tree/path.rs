//! From launches to paths: the names between the root and a launch.

use std::collections::HashMap;

use super::cost::{Cost, Costs, Side};
use stallmap_console::args::tree::{FrameName, Level};

/// One launch from the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Launch {
    /// The names of each category, callers first. None if the launch has none.
    pub(super) frames: Vec<String>,
    /// See [`Level::User`].
    pub(super) user_frames: Vec<String>,
    /// See [`Level::Forward`].
    pub(super) forward_frames: Vec<String>,
    /// See [`Level::Module`].
    pub(super) module: Vec<String>,
    /// See [`Level::Phase`].
    pub(super) phase: Option<String>,
    /// See [`Level::Step`].
    pub(super) step: Option<String>,
    /// See [`Level::Op`].
    pub(super) ops: Vec<String>,
    /// See [`Level::Kernel`].
    pub(super) kernel: Option<String>,
    /// Its cost.
    pub(super) cost: Cost,
    /// True if it has samples with an unknown time.
    pub(super) lacks_time: bool,
}

/// One name at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The level.
    pub(super) level: Level,
    /// The name.
    pub(super) name: String,
}

/// The path of one launch: steps by their number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    /// Callers first.
    pub(super) steps: Vec<usize>,
    /// Cost of the launch.
    pub(super) cost: Costs,
}

/// The paths of all launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Paths {
    /// Every step that a path has.
    pub(super) steps: Vec<Step>,
    /// The paths.
    pub(super) paths: Vec<Path>,
}

/// Numbers steps in order of appearance.
#[derive(Default)]
struct Numbers {
    steps: Vec<Step>,
    known: Vec<(Level, HashMap<String, usize>)>,
}

impl Launch {
    fn names(&self, level: Level) -> &[String] {
        match level {
            Level::Python => &self.frames,
            Level::User => &self.user_frames,
            Level::Forward => &self.forward_frames,
            Level::Module => &self.module,
            Level::Phase => self.phase.as_slice(),
            Level::Step => self.step.as_slice(),
            Level::Op => &self.ops,
            Level::Kernel => self.kernel.as_slice(),
        }
    }
}

/// The paths of launches of one or two captures. A category without launches is omitted. If only some launches lack it,
/// they share a name in parentheses.
pub(super) fn paths(launches: &[(Side, Vec<Launch>)], levels: &[Level], form: FrameName) -> Paths {
    let all =
        || launches.iter().flat_map(|(side, launches)| launches.iter().map(move |launch| (*side, launch)));
    let levels: Vec<Level> = levels
        .iter()
        .copied()
        .filter(|&level| all().any(|(_, launch)| !launch.names(level).is_empty()))
        .collect();
    let mut numbers = Numbers::default();
    let mut paths = Vec::new();
    for (side, launch) in all() {
        let mut steps = Vec::new();
        for &level in &levels {
            let names = launch.names(level);
            if names.is_empty() {
                steps.push(numbers.number(level, nothing(level)));
            }
            steps.extend(names.iter().map(|name| match level {
                Level::Python | Level::User | Level::Forward => numbers.number(level, &frame(name, form)),
                _ => numbers.number(level, name),
            }));
        }
        paths.push(Path { steps, cost: Costs::of(side, launch.cost) });
    }
    Paths { steps: numbers.steps, paths }
}

impl Numbers {
    fn number(&mut self, level: Level, name: &str) -> usize {
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
        self.steps.push(Step { level, name: name.to_owned() });
        number
    }
}

/// Name of launches without a category.
const fn nothing(level: Level) -> &'static str {
    match level {
        Level::Python | Level::User => "(no Python stack)",
        Level::Forward => "(no forward op)",
        Level::Module => "(outside modules)",
        Level::Phase | Level::Step | Level::Op => "(outside any operator)",
        Level::Kernel => "(unknown kernel)",
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

    fn launch(frames: &[&str], ops: &[&str]) -> Launch {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Launch { frames: texts(frames), ops: texts(ops), ..Launch::default() }
    }

    fn named(launches: Vec<Launch>, levels: &[Level], form: FrameName) -> Vec<Vec<String>> {
        let paths = paths(&[(Side::After, launches)], levels, form);
        let name = |step: &usize| paths.steps[*step].name.clone();
        paths.paths.iter().map(|path| path.steps.iter().map(name).collect()).collect()
    }

    #[test]
    fn a_level_that_nobody_has_is_left_out_and_one_that_some_lack_is_named() {
        let launches = vec![launch(&["a.py:1 f"], &[]), launch(&[], &[])];
        let levels = [Level::Python, Level::Op];
        let expected = [["a.py:1 f"], ["(no Python stack)"]];
        assert_eq!(named(launches, &levels, FrameName::FileFunctionLine), expected);
    }

    #[test]
    fn only_frames_are_renamed() {
        let launches = || vec![launch(&["dir a/b.py:12 main.<locals>.<lambda>"], &["aten::conv2d"])];
        let levels = [Level::Python, Level::Op];
        let short = [["main.<locals>.<lambda>:12", "aten::conv2d"]];
        assert_eq!(named(launches(), &levels, FrameName::FunctionLine), short);
        let lineless = [["dir a/b.py main.<locals>.<lambda>", "aten::conv2d"]];
        assert_eq!(named(launches(), &levels, FrameName::FileFunction), lineless);
    }
}
