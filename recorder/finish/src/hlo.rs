//! Programs that XLA compiled: each launch of one gets its instruction, as an op with the lines at which it was traced.
//!
//! ```text
//! hlo-PID-N.program (from the Python hook)
//!   → files    facts, module, code
//!   → launches that hold the module's code, and library kernels between them, get instructions
//!   → rows     ops, stacks, and the tables of modules and instructions
//! ```

mod candidates;
mod files;
mod rows;

use std::collections::BTreeMap;
use std::mem::take;

use stallmap_hlo::assign::{self, AssignedLaunch, SeenLaunch};
use stallmap_hlo::module::CompiledModule;
use stallmap_hlo::plan::LaunchPlan;
use stallmap_hlo::thunk::LaunchThunk;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::word::LossKind;
use stallmap_write::CaptureWriter;

use self::candidates::CandidateSource;
use self::rows::HloRows;
use crate::assemble::append;
use crate::code::RecordedModules;
use crate::error::FinishError;
use crate::loss::LossTotals;
use crate::recording::OpenedRecording;
use crate::runs::RunState;

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
    let (threads, trials) = CandidateSource { run, files: &files, modules, seen: &seen }.sort();
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
