//! Programs that XLA compiled: each launch of one gets its instruction, as an op with the lines at which it was traced.
//!
//! ```text
//! hlo-PID-N.program (from the Python hook)
//!   → files    facts, module, code
//!   → launches that hold the module's code, and library kernels between them, get instructions
//!   → rows     ops, stacks, and the tables of modules and instructions
//! ```

mod buffers;
mod files;
mod ranges;
mod rows;

use std::collections::BTreeMap;
use std::mem::take;

use stallmap_hlo::assign::{self, AssignedLaunch, SeenLaunch};
use stallmap_hlo::module::CompiledModule;
use stallmap_hlo::plan::LaunchPlan;
use stallmap_hlo::thunk::LaunchThunk;
use stallmap_schema::id::{KernelId, ModuleId};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::word::LossKind;
use stallmap_write::CaptureWriter;

use self::files::ProgramFile;
use self::ranges::XlaRanges;
use self::rows::HloRows;
use crate::assemble::append;
use crate::code::RecordedModules;
use crate::error::FinishError;
use crate::loss::LossTotals;
use crate::recording::OpenedRecording;
use crate::runs::RunState;

/// A launch on its way to an instruction.
#[derive(Debug)]
struct HloCandidate {
    /// Index among the run's launches.
    launch: usize,
    /// The kernel's name.
    kernel: String,
    /// Programs that hold its code and were compiled by then.
    programs: Vec<usize>,
    /// The instruction that a range of XLA around it names.
    instruction: Option<u64>,
}

/// Gives a run's launches their instructions. `first_module` is the number of the first module. Returns the number of
/// modules that got one.
pub(crate) fn attribute(
    run: &mut RunState,
    folder: &OpenedRecording,
    modules: &RecordedModules,
    first_module: u64,
    losses: &mut LossTotals,
) -> u64 {
    let run_id = run.row.run_id;
    let files = files::read(folder.folder(run.folder_index), run.row.process_id, run_id, losses);
    if files.is_empty() {
        return 0;
    }
    let seen = seen_launches(run);
    let (threads, trials) = candidates(run, &files, modules, &seen);
    let compiled: Vec<CompiledModule<'_>> =
        files.iter().map(|file| CompiledModule::read(file.executable.module()).unwrap_or_default()).collect();
    let thunks: Vec<Vec<LaunchThunk<'_>>> = files.iter().map(|file| file.executable.thunks()).collect();
    let plans: Vec<LaunchPlan<'_, '_>> =
        compiled.iter().zip(&thunks).map(|(module, thunks)| LaunchPlan::new(module, thunks)).collect();
    let mut rows = HloRows::new(&files, &plans, first_module);
    let mut lost = 0;
    for launches in threads.values() {
        let given: Vec<SeenLaunch<'_>> = launches
            .iter()
            .map(|candidate| SeenLaunch {
                kernel: &candidate.kernel,
                programs: &candidate.programs,
                instruction: candidate.instruction,
            })
            .collect();
        for (candidate, assigned) in launches.iter().zip(assign::assign(&plans, &given)) {
            match assigned {
                Some(assigned) => give(run, candidate.launch, assigned, &seen, &mut rows),
                None => lost += 1,
            }
        }
    }
    for (launch, program) in trials {
        if let Some(launch) = run.rows.launches.get_mut(launch) {
            rows.add_trial(launch, program, seen.get(&launch.kernel_id));
        }
    }
    losses.add(run_id, LossKind::Op, "HLO instruction of a launch is not known", lost);
    rows.finish(run, losses)
}

/// Writes the tables of modules and instructions. A run whose launches are those of an earlier run has none of its own.
pub(crate) fn write(run: &mut RunState, writer: &mut CaptureWriter) -> Result<(), FinishError> {
    if !run.is_reference() {
        return Ok(());
    }
    let launches = &run.rows.launches;
    let mut rows = take(&mut run.rows.hlo_launches);
    rows.retain(|row| launches.binary_search_by_key(&row.kernel_id, |launch| launch.kernel_id).is_ok());
    rows.sort_by_key(|row| row.kernel_id);
    append(writer, take(&mut run.rows.hlo_modules))?;
    append(writer, take(&mut run.rows.hlo_instructions))?;
    append(writer, take(&mut run.rows.hlo_sources))?;
    append(writer, rows)
}

/// Thread and times of each launch.
fn seen_launches(run: &RunState) -> BTreeMap<KernelId, LaunchRun> {
    let mut seen: BTreeMap<KernelId, LaunchRun> = BTreeMap::new();
    for row in &run.rows.launch_runs {
        let known = seen.entry(row.kernel_id).or_insert_with(|| row.clone());
        known.end_ns = row.end_ns.or(known.end_ns);
    }
    seen
}

type ThreadLaunches = BTreeMap<u32, Vec<HloCandidate>>;

/// The launches of each thread in order, but for those of other frameworks. And the compiler's trials, each with the
/// program that was compiled.
fn candidates(
    run: &RunState,
    files: &[ProgramFile],
    modules: &RecordedModules,
    seen: &BTreeMap<KernelId, LaunchRun>,
) -> (ThreadLaunches, Vec<(usize, usize)>) {
    let mut by_code: BTreeMap<ModuleId, Vec<usize>> = BTreeMap::new();
    for (program, file) in files.iter().enumerate() {
        for module_id in &file.code {
            by_code.entry(*module_id).or_default().push(program);
        }
    }
    let ranges = XlaRanges::new(&run.rows.ops);
    let mut order: Vec<usize> = (0..run.rows.launches.len()).collect();
    order.sort_by_key(|launch| run.rows.launches.get(*launch).map(|launch| launch.ordinal));
    let (mut threads, mut trials) = (ThreadLaunches::new(), Vec::new());
    for index in order {
        let Some(launch) = run.rows.launches.get(index) else { continue };
        let Some(row) = seen.get(&launch.kernel_id) else { continue };
        let holders = modules.module_of(launch.function_id).and_then(|module_id| by_code.get(&module_id));
        let is_compiled =
            |program: &&usize| files.get(**program).is_some_and(|file| file.facts.end_ns <= row.begin_ns);
        let mut programs: Vec<usize> = holders.into_iter().flatten().filter(is_compiled).copied().collect();
        if programs.is_empty() && launch.op_id.is_some_and(|op| ranges.is_of_a_framework(op)) {
            continue;
        }
        let (instruction, module) = launch.op_id.map(|op| ranges.around(op)).unwrap_or_default();
        if let Some(module) = module.filter(|_| programs.is_empty()) {
            let named = files.iter().enumerate().filter(|(_, file)| file.facts.name == module);
            programs = named.map(|(program, _)| program).filter(|program| is_compiled(&program)).collect();
            // The last one of several with a name.
            programs.reverse();
        }
        if programs.is_empty()
            && let Some(program) = files.iter().position(|file| file.facts.is_compiling(row.begin_ns))
        {
            trials.push((index, program));
            continue;
        }
        let kernel = modules.name(launch.function_id).to_owned();
        threads.entry(row.thread_id).or_default().push(HloCandidate {
            launch: index,
            kernel,
            programs,
            instruction,
        });
    }
    (threads, trials)
}

fn give(
    run: &mut RunState,
    launch: usize,
    assigned: AssignedLaunch,
    seen: &BTreeMap<KernelId, LaunchRun>,
    rows: &mut HloRows<'_, '_, '_>,
) {
    if let Some(launch) = run.rows.launches.get_mut(launch) {
        rows.add(launch, assigned, seen.get(&launch.kernel_id));
    }
}
