//! Code below the kernel: device functions, source lines and instructions, with the samples that each launch has there.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::path::PathLaunch;
use stallmap::library::queries;
use stallmap_console::exit::Outcome;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

/// Separator of a function and the line that calls it, as `instruction.call_path` has it.
const CALLED: &str = " called at ";

rows! {
    /// An instruction.
    struct TreeCodeRow {
        function_id: u64,
        pc: u32,
        function: Option<String>,
        call_path: Option<String>,
        file: Option<String>,
        line: Option<u32>,
        text: Option<String>,
    }

    /// Its samples in one launch.
    struct TreeSampleRow {
        kernel_id: u64,
        function_id: u64,
        pc: u32,
        is_own: bool,
        samples: f64,
        memory_samples: f64,
    }
}

/// An instruction as steps of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CodeSite {
    /// Device functions below the kernel, callers first. Inlined ones are among them.
    pub(super) functions: Vec<String>,
    /// The source line.
    pub(super) line: Option<String>,
    /// The instruction.
    pub(super) instruction: Option<String>,
}

/// Samples of a launch at an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SiteSamples {
    /// The instruction.
    pub(super) site: Arc<CodeSite>,
    /// Samples.
    pub(super) samples: f64,
    /// Samples of memory stalls.
    pub(super) memory_samples: f64,
}

/// Gives the launches their instructions, from the rows of both queries.
pub(super) fn attach(
    launches: &mut [PathLaunch],
    code: &[RecordBatch],
    samples: &[RecordBatch],
) -> Outcome<()> {
    let mut sites = HashMap::new();
    for row in TreeCodeRow::read(queries::tree::CODE.name, code)? {
        let key = (row.function_id, row.pc);
        let called = CodeSite::from_row(row);
        let own =
            CodeSite { functions: called.functions.iter().skip(1).cloned().collect(), ..called.clone() };
        sites.insert(key, (Arc::new(called), Arc::new(own)));
    }
    let mut known: HashMap<u64, Vec<SiteSamples>> = HashMap::new();
    for row in TreeSampleRow::read(queries::tree::INSTRUCTIONS.name, samples)? {
        let site =
            sites.get(&(row.function_id, row.pc)).map(|(called, own)| if row.is_own { own } else { called });
        let site = site.cloned().unwrap_or_default();
        let samples = SiteSamples { site, samples: row.samples, memory_samples: row.memory_samples };
        known.entry(row.kernel_id).or_default().push(samples);
    }
    for launch in launches {
        launch.sites = known.remove(&launch.kernel_id).unwrap_or_default();
    }
    Ok(())
}

impl CodeSite {
    /// An instruction of a function that the kernel calls: the function comes first, then those inlined in it.
    fn from_row(row: TreeCodeRow) -> Self {
        let called = row.function.unwrap_or_else(|| "(unknown function)".to_owned());
        let call_path = row.call_path.unwrap_or_default();
        let inlined = call_path.lines().rev();
        let inlined = inlined.map(|call| call.split_once(CALLED).map_or(call, |(name, _)| name).to_owned());
        let line = row.file.zip(row.line).map(|(file, line)| {
            let name = file.rsplit_once('/').map_or(&*file, |(_, name)| name);
            format!("{name}:{line}")
        });
        Self {
            functions: std::iter::once(called).chain(inlined).collect(),
            line,
            instruction: row.text.map(|text| format!("{:#06x} {text}", row.pc)),
        }
    }
}
