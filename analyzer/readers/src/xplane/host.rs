//! The plane of the host: calls of the driver, regions, steps and Python functions, by thread.

use stallmap_schema::word::{LossKind, OpKind, Phase};

use super::plane::{PlaneEvent, TracePlane};
use super::{MAX_EVENTS, SpaceReader, visit};
use crate::kineto::category::host_wait;
use crate::model::{TraceActivity, TraceCall, TraceFrame, TraceOp};

/// The begin of names of Python functions.
const FUNCTION: char = '$';
/// The begin of names of allocators of GPU memory.
const GPU_ALLOCATOR: &str = "GPU_";

impl SpaceReader {
    /// Reads the plane.
    pub(super) fn host(&mut self, plane: &TracePlane<'_>) {
        let (mut damage, mut rejected) = (std::mem::take(&mut self.damage), self.rejected);
        // A list that grows is copied. Kernels have ops, too.
        let events = usize::try_from(plane.event_count()).unwrap_or(MAX_EVENTS) + self.trace.kernels.len();
        self.trace.ops.reserve_exact(events.min(MAX_EVENTS));
        // Lines of one number are one thread: the lines of some profilers have none.
        for (place, line) in (1_u64..).zip(plane.lines(&mut damage)) {
            let thread = if line.id == 0 { place } else { line.id };
            visit(&line, self.start_ns, &mut damage, &mut rejected, |event, begin_ns, end_ns| {
                match end_ns {
                    Some(end_ns) => self.span(&event, TraceCall { thread, begin_ns, end_ns }),
                    None => self.moment(&event, thread, begin_ns),
                }
                self.count()
            });
        }
        (self.damage, self.rejected) = (damage, rejected);
    }

    /// A call of the driver, a function or a region.
    fn span(&mut self, event: &PlaneEvent<'_>, call: TraceCall) {
        let is_call = is_call(event.name);
        if let Some(kind) = host_wait(event.name).filter(|_| is_call || event.correlation.is_some()) {
            self.trace.works.push(TraceActivity::for_wait(0, kind, call, event.correlation));
        } else if let Some(number) = event.correlation {
            // Calls may have the names of their kernels.
            let name = is_call.then(|| self.shared(event.name));
            self.calls.insert(number, (call, name));
        } else if let Some(name) = event.name.strip_prefix(FUNCTION) {
            self.functions.add_parsed(call, name, function);
        } else {
            let name = match event.step {
                // As the program wrote it.
                Some(step) => self.shared(&format!("{}#step_num={step}", event.name)),
                None => self.shared(event.name),
            };
            self.trace
                .ops
                .push(TraceOp { phase: Phase::Other, ..TraceOp::for_call(call, OpKind::Region, name) });
        }
    }

    /// An event without a length: of an allocator, or a mark.
    fn moment(&mut self, event: &PlaneEvent<'_>, thread: u64, time_ns: i64) {
        match event.allocator.and_then(device) {
            Some(device) => self.memory.add(event, device, thread, time_ns),
            None if event.allocator.is_some() => {
                let reason = "allocations and frees of memory of the host";
                self.trace.losses.add(LossKind::Source, reason, None);
            }
            None => {
                self.trace.losses.add(LossKind::Source, "events without a length", Some(event.name));
            }
        }
    }
}

/// The GPU of an allocator, from `GPU_0_bfc` or `GPU_collectivememory_0_bfc`.
fn device(allocator: &str) -> Option<i32> {
    let name = allocator.strip_prefix(GPU_ALLOCATOR)?;
    let name = name.split_once("_bfc").map_or(name, |(name, _)| name);
    name.rsplit('_').next()?.parse().ok()
}

/// True for a name of a function of a driver or a runtime, as `cuLaunchKernel`.
fn is_call(name: &str) -> bool {
    let is_of = |library| {
        let name = name.strip_prefix(library)?.chars().next()?;
        Some(name.is_ascii_uppercase())
    };
    ["cuda", "cu", "hip"].into_iter().any(|library| is_of(library) == Some(true))
}

/// The frame of a function, from `file.py:12 name`. Built-in functions have no line, and no frame.
///
/// The name of a file may have spaces.
fn function(name: &str) -> Option<TraceFrame> {
    name.match_indices(' ').find_map(|(at, space)| {
        let (file, line) = name.get(..at)?.rsplit_once(':')?;
        let function = name.get(at + space.len()..)?.to_owned();
        Some(TraceFrame { file: file.to_owned(), function, line: line.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn calls_have_the_names_of_a_library() {
        for name in ["cuLaunchKernel", "cudaStreamSynchronize", "hipDeviceSynchronize"] {
            assert!(super::is_call(name), "{name}");
        }
        for name in ["Synchronize gradients", "cutlass_gemm", "cu", "custom-call"] {
            assert!(!super::is_call(name), "{name}");
        }
    }

    #[test]
    fn allocators_have_the_number_of_their_gpu() {
        for (name, device) in [
            ("GPU_0_bfc", Some(0)),
            ("GPU_collectivememory_3_bfc", Some(3)),
            ("GPU_2", Some(2)),
            ("GPU_host_bfc", None),
            ("gpu_host_bfc", None),
        ] {
            assert_eq!(super::device(name), device, "{name}");
        }
    }

    #[test]
    fn functions_have_their_lines() {
        let frame = super::function("profiler.py:307 trace").unwrap();
        assert_eq!((frame.file.as_str(), frame.line, frame.function.as_str()), ("profiler.py", 307, "trace"));
        let frame = super::function("my file.py:12 <lambda> a:1 b").unwrap();
        assert_eq!(
            (frame.file.as_str(), frame.line, frame.function.as_str()),
            ("my file.py", 12, "<lambda> a:1 b")
        );
        assert_eq!(super::function("builtins len"), None);
    }
}
