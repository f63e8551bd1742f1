//! Facts about compiled code: the same in every run that took the code from the compiler's cache, so each is stored once.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::FrameId;
use stallmap_schema::tables::compiled::{CompiledOrigin, TritonKernel};
use stallmap_schema::tables::python::PythonFrame;

use crate::runs::RunState;

/// Key of a compiled Triton kernel: all of its columns.
type TritonKey = (String, String, u32, String, String);

/// Origins of generated lines and Triton kernels of runs, each once.
#[derive(Debug, Default)]
pub(crate) struct CompiledCode {
    origins: BTreeMap<FrameId, Vec<CompiledOrigin>>,
    kernels: BTreeMap<TritonKey, TritonKernel>,
}

impl CompiledCode {
    /// Adds those of a run. A line has the origins of the first run that names it.
    pub(crate) fn add(&mut self, run: &mut RunState) {
        let mut own: BTreeMap<FrameId, BTreeMap<u32, CompiledOrigin>> = BTreeMap::new();
        for origin in std::mem::take(&mut run.rows.origins) {
            own.entry(origin.frame_id).or_default().entry(origin.rank).or_insert(origin);
        }
        for (frame_id, origins) in own {
            self.origins.entry(frame_id).or_insert_with(|| origins.into_values().collect());
        }
        for kernel in std::mem::take(&mut run.rows.triton_kernels) {
            let TritonKernel { name, file, line, signature, configuration } = kernel.clone();
            self.kernels.entry((name, file, line, signature, configuration)).or_insert(kernel);
        }
    }

    /// Rows of `compiled_origin` and `triton_kernel`. Python names a line's origins before its first stack, so a line
    /// without a frame was never launched from.
    pub(crate) fn into_rows(self, frames: &[PythonFrame]) -> (Vec<CompiledOrigin>, Vec<TritonKernel>) {
        let known: BTreeSet<FrameId> = frames.iter().map(|frame| frame.frame_id).collect();
        let origins = self.origins.into_iter().filter(|(frame_id, _)| known.contains(frame_id));
        (origins.flat_map(|(_, origins)| origins).collect(), self.kernels.into_values().collect())
    }
}

/// Files of the lines that have origins.
pub(crate) fn generated_files<'a>(
    frames: &'a [PythonFrame],
    origins: &[CompiledOrigin],
) -> BTreeSet<&'a str> {
    let generated: BTreeSet<FrameId> = origins.iter().map(|origin| origin.frame_id).collect();
    let lines = frames.iter().filter(|frame| generated.contains(&frame.frame_id));
    lines.map(|frame| frame.original_file.as_str()).collect()
}
