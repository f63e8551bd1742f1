//! From launches to paths: the names between the root and a launch.

use std::collections::HashMap;

use super::code::{CodeSite, SiteSamples};
use super::cost::{CaptureSide, LaunchCost, PairedCosts};
use stallmap_console::args::tree::{FrameName, TreeLevel};

/// One launch from the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PathLaunch {
    /// The launch.
    pub(super) kernel_id: u64,
    /// The names of each category, callers first. None if the launch has none.
    pub(super) frames: Vec<String>,
    /// See [`TreeLevel::User`].
    pub(super) user_frames: Vec<String>,
    /// See [`TreeLevel::Forward`].
    pub(super) forward_frames: Vec<String>,
    /// See [`TreeLevel::Module`].
    pub(super) module: Vec<String>,
    /// See [`TreeLevel::Layer`].
    pub(super) layers: Vec<LayerShare>,
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
    /// Its instructions with samples. Empty where no level needs them.
    pub(super) sites: Vec<SiteSamples>,
    /// Its cost.
    pub(super) cost: LaunchCost,
    /// True if it has samples with an unknown time.
    pub(super) lacks_time: bool,
}

/// A layer's share of a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LayerShare {
    /// Its kind, and its name if that is another one. None for the part outside modules.
    pub(super) names: Vec<String>,
    /// The shares of a launch add up to 1.
    pub(super) weight: f64,
}

impl LayerShare {
    /// A layer as the query names it. The part outside modules has no names.
    pub(super) fn from_names(kind: String, layer: String, weight: f64) -> Self {
        let mut names = vec![kind, layer];
        names.dedup();
        names.retain(|name| !name.is_empty());
        Self { names, weight }
    }
}

/// A part of a launch that has a path of its own.
#[derive(Clone, Copy, Debug, Default)]
struct PathPart<'a> {
    /// Its layer, where a level distinguishes layers.
    layer: Option<&'a LayerShare>,
    /// Its instruction, where a level lies below the kernel.
    site: Option<&'a CodeSite>,
    /// Its part of the cost.
    cost: LaunchCost,
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
    /// The names at a level, for a part of it.
    fn names<'a>(&'a self, level: TreeLevel, part: &PathPart<'a>) -> &'a [String] {
        match level {
            TreeLevel::Layer => part.layer.map_or(&[], |layer| &layer.names),
            TreeLevel::Function => part.site.map_or(&[], |site| &site.functions),
            TreeLevel::Line => part.site.map_or(&[], |site| site.line.as_slice()),
            TreeLevel::Instruction => part.site.map_or(&[], |site| site.instruction.as_slice()),
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

    /// True if it has a name at a level.
    fn has(&self, level: TreeLevel) -> bool {
        match level {
            TreeLevel::Layer => self.layers.iter().any(|layer| !layer.names.is_empty()),
            TreeLevel::Function | TreeLevel::Line | TreeLevel::Instruction => {
                let is_named = |part: &PathPart<'_>| !self.names(level, part).is_empty();
                self.sites
                    .iter()
                    .any(|site| is_named(&PathPart { site: Some(&site.site), ..PathPart::default() }))
            }
            _ => !self.names(level, &PathPart::default()).is_empty(),
        }
    }

    /// Its parts: one for each of its instructions and layers, where a level distinguishes these.
    fn parts<'a>(&'a self, has_layers: bool) -> Vec<PathPart<'a>> {
        let whole = PathPart { cost: self.cost, ..PathPart::default() };
        let sites = self.sites.iter().map(|own| PathPart {
            site: Some(&own.site),
            cost: self.cost.at(own.samples, own.memory_samples),
            layer: None,
        });
        let mut parts: Vec<PathPart<'_>> = sites.collect();
        if parts.is_empty() {
            parts.push(whole);
        }
        if !has_layers || self.layers.is_empty() {
            return parts;
        }
        let divided = parts.into_iter().flat_map(|part| {
            let layered = move |layer: &'a LayerShare| PathPart {
                layer: Some(layer),
                cost: part.cost.scaled(layer.weight),
                ..part
            };
            self.layers.iter().map(layered)
        });
        divided.collect()
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
    let levels: Vec<TreeLevel> =
        levels.iter().copied().filter(|&level| all().any(|(_, launch)| launch.has(level))).collect();
    let mut numbers = StepNumbers::default();
    let mut paths = Vec::new();
    let has_layers = levels.contains(&TreeLevel::Layer);
    for (side, launch) in all() {
        for part in launch.parts(has_layers) {
            let steps = numbers.path(launch, &part, &levels, form);
            paths.push(LaunchPath { steps, cost: PairedCosts::for_side(side, part.cost) });
        }
    }
    LaunchPaths { steps: numbers.steps, paths }
}

impl StepNumbers {
    /// The steps of a part of a launch.
    fn path(
        &mut self,
        launch: &PathLaunch,
        part: &PathPart<'_>,
        levels: &[TreeLevel],
        form: FrameName,
    ) -> Vec<usize> {
        let mut steps = Vec::new();
        for &level in levels {
            let names = launch.names(level, part);
            // Code of the kernel itself lies in no other function.
            if names.is_empty() && level != TreeLevel::Function {
                steps.push(self.number(level, nothing(level)));
            }
            steps.extend(names.iter().map(|name| match level {
                TreeLevel::Python | TreeLevel::User | TreeLevel::Forward => {
                    self.number(level, &frame(name, form))
                }
                _ => self.number(level, name),
            }));
        }
        steps
    }

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
        TreeLevel::Module | TreeLevel::Layer => "(outside modules)",
        TreeLevel::Phase | TreeLevel::Op => "(outside any operator)",
        TreeLevel::Step => "(outside steps)",
        TreeLevel::Range => "(outside of ranges)",
        TreeLevel::Kernel => "(unknown kernel)",
        TreeLevel::Function => "(the kernel)",
        TreeLevel::Line => "(no source line)",
        TreeLevel::Instruction => "(unknown code)",
    }
}

/// A frame `file:line function`, named as requested. Only frames are split: names of ops have colons, too.
fn frame(text: &str, form: FrameName) -> String {
    let parts = text.rsplit_once(' ').and_then(|(location, function)| {
        let (file, line) = location.rsplit_once(':')?;
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
    fn a_launch_of_several_layers_is_divided() {
        let share =
            |kind: &str, layer: &str, weight| LayerShare::from_names(kind.into(), layer.into(), weight);
        let cost = LaunchCost { samples: 8.0, launches: 1.0, ..LaunchCost::default() };
        let layers =
            vec![share("blocks.*", "blocks.0", 0.75), share("head", "head", 0.125), share("", "", 0.125)];
        let launches = || vec![PathLaunch { layers: layers.clone(), cost, ..launch(&[], &["aten::mul"]) }];
        let levels = [TreeLevel::Layer, TreeLevel::Op];
        let expected: [&[&str]; 3] = [
            &["blocks.*", "blocks.0", "aten::mul"],
            &["head", "aten::mul"],
            &["(outside modules)", "aten::mul"],
        ];
        assert_eq!(named(launches(), &levels, FrameName::FileFunctionLine), expected);
        let divided = paths(&[(CaptureSide::After, launches())], &levels, FrameName::FileFunctionLine);
        let costs: Vec<_> =
            divided.paths.iter().map(|path| (path.cost.after.samples, path.cost.after.launches)).collect();
        assert_eq!(costs, [(6.0, 0.75), (1.0, 0.125), (1.0, 0.125)]);
        // Without the level it stays whole.
        let whole = [["aten::mul"]];
        assert_eq!(named(launches(), &[TreeLevel::Op], FrameName::FileFunctionLine), whole);
    }

    #[test]
    fn samples_below_the_kernel_are_divided_by_instruction() {
        let site = |functions: &[&str], line: Option<&str>, samples, memory_samples| SiteSamples {
            site: std::sync::Arc::new(CodeSite {
                functions: functions.iter().map(|&name| name.to_owned()).collect(),
                line: line.map(str::to_owned),
                instruction: None,
            }),
            samples,
            memory_samples,
        };
        let cost = LaunchCost {
            samples: 8.0,
            memory_samples: 4.0,
            time_ns: 16.0,
            launches: 1.0,
            ..LaunchCost::default()
        };
        let sites = vec![site(&["fetch"], Some("a.cu:3"), 2.0, 2.0), site(&[], None, 6.0, 2.0)];
        let launch = PathLaunch { sites, cost, kernel: Some("k".into()), ..PathLaunch::default() };
        let levels = [TreeLevel::Kernel, TreeLevel::Function, TreeLevel::Line, TreeLevel::Instruction];
        let expected: [&[&str]; 2] = [&["k", "fetch", "a.cu:3"], &["k", "(no source line)"]];
        assert_eq!(named(vec![launch.clone()], &levels, FrameName::FileFunctionLine), expected);
        let divided = paths(&[(CaptureSide::After, vec![launch])], &levels, FrameName::FileFunctionLine);
        let costs: Vec<_> = divided
            .paths
            .iter()
            .map(|path| (path.cost.after.samples, path.cost.after.memory_samples, path.cost.after.time_ns))
            .collect();
        assert_eq!(costs, [(2.0, 2.0, 4.0), (6.0, 2.0, 12.0)]);
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
