//! The launches that may be a compiled program's, by thread, and the compiler's own trials.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_hlo::ranges::XlaRanges;
use stallmap_schema::id::{KernelId, ModuleId};
use stallmap_schema::tables::launch::LaunchRun;

use super::files::ProgramFile;
use crate::code::RecordedModules;
use crate::runs::RunState;

/// A launch on its way to an instruction.
#[derive(Debug)]
pub(super) struct HloCandidate {
    /// Index among the run's launches.
    pub(super) launch: usize,
    /// The kernel's name.
    pub(super) kernel: String,
    /// Programs that hold its code and were compiled by then.
    pub(super) programs: Vec<usize>,
    /// The instruction that a range of XLA around it names.
    pub(super) instruction: Option<u64>,
    thread_id: u32,
    /// The program that was being compiled at its time.
    compiling: Option<usize>,
}

/// The launches of each thread in order.
pub(super) type ThreadLaunches = BTreeMap<u32, Vec<HloCandidate>>;

/// A run, with the programs of its process.
pub(super) struct CandidateSource<'r> {
    pub(super) run: &'r RunState,
    pub(super) files: &'r [ProgramFile],
    pub(super) modules: &'r RecordedModules,
    pub(super) seen: &'r BTreeMap<KernelId, LaunchRun>,
}

impl CandidateSource<'_> {
    /// The launches of each thread but for those of other frameworks, and the compiler's trials, each with the program
    /// that was compiled.
    pub(super) fn sort(&self) -> (ThreadLaunches, Vec<(usize, usize)>) {
        let candidates = self.candidates();
        // A thread that runs programs while another one compiles makes no trials.
        let running: BTreeSet<(usize, u32)> = candidates
            .iter()
            .filter(|candidate| !candidate.programs.is_empty())
            .filter_map(|candidate| Some((candidate.compiling?, candidate.thread_id)))
            .collect();
        let (mut threads, mut trials) = (ThreadLaunches::new(), Vec::new());
        for candidate in candidates {
            let compiling =
                candidate.compiling.filter(|program| !running.contains(&(*program, candidate.thread_id)));
            match compiling.filter(|_| candidate.programs.is_empty()) {
                Some(program) => trials.push((candidate.launch, program)),
                None => threads.entry(candidate.thread_id).or_default().push(candidate),
            }
        }
        (threads, trials)
    }

    fn candidates(&self) -> Vec<HloCandidate> {
        let launches = &self.run.rows.launches;
        let mut by_code: BTreeMap<ModuleId, Vec<usize>> = BTreeMap::new();
        for (program, file) in self.files.iter().enumerate() {
            for module_id in &file.code {
                by_code.entry(*module_id).or_default().push(program);
            }
        }
        let ranges = XlaRanges::new(&self.run.rows.ops);
        let mut order: Vec<usize> = (0..launches.len()).collect();
        order.sort_by_key(|launch| launches.get(*launch).map(|launch| launch.ordinal));
        order.into_iter().filter_map(|launch| self.candidate(launch, &by_code, &ranges)).collect()
    }

    fn candidate(
        &self,
        index: usize,
        by_code: &BTreeMap<ModuleId, Vec<usize>>,
        ranges: &XlaRanges<'_>,
    ) -> Option<HloCandidate> {
        let launch = self.run.rows.launches.get(index)?;
        let row = self.seen.get(&launch.kernel_id)?;
        let is_compiled =
            |program: &usize| self.files.get(*program).is_some_and(|file| file.facts.end_ns <= row.begin_ns);
        let holders =
            self.modules.module_of(launch.function_id).and_then(|module_id| by_code.get(&module_id));
        let mut programs: Vec<usize> = holders.into_iter().flatten().copied().filter(is_compiled).collect();
        if programs.is_empty() && launch.op_id.is_some_and(|op| ranges.is_of_a_framework(op)) {
            return None;
        }
        let (instruction, module) = launch.op_id.map(|op| ranges.around(op)).unwrap_or_default();
        if let Some(module) = module.filter(|_| programs.is_empty()) {
            let named = (0..self.files.len()).rev();
            let is_named =
                |program: &usize| self.files.get(*program).is_some_and(|file| file.facts.name == module);
            // The last one of several with a name.
            programs = named.filter(is_named).filter(is_compiled).collect();
        }
        Some(HloCandidate {
            launch: index,
            kernel: self.modules.name(launch.function_id).to_owned(),
            programs,
            instruction,
            thread_id: row.thread_id,
            compiling: self.files.iter().position(|file| file.facts.is_compiling(row.begin_ns)),
        })
    }
}
