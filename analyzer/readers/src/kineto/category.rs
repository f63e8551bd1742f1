//! Categories of events, as the releases of the profiler write them.

use stallmap_schema::word::{ActivityKind, CopyKind, SynchronizationKind};

/// Categories that the import reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventCategory {
    Kernel,
    /// A copy, a fill or a wait.
    Work(ActivityKind),
    /// A call of the runtime or the driver of a GPU.
    Call,
    Op,
    Region,
    /// A Python function or module.
    Function,
}

impl EventCategory {
    /// The category of a text. Before PyTorch 1.10 the words are others. None if it is not read.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "kernel" | "Kernel" | "concurrent_kernel" => Self::Kernel,
            "gpu_memcpy" | "Memcpy" => Self::Work(ActivityKind::Copy),
            "gpu_memset" | "Memset" => Self::Work(ActivityKind::Fill),
            "cuda_sync" => Self::Work(ActivityKind::Synchronization),
            "cuda_runtime"
            | "cuda_driver"
            | "Runtime"
            | "Driver"
            | "xpu_runtime"
            | "xpu_driver"
            | "privateuse1_runtime"
            | "privateuse1_driver" => Self::Call,
            "cpu_op" | "Operator" => Self::Op,
            "user_annotation" => Self::Region,
            "python_function" => Self::Function,
            _ => return None,
        })
    }
}

/// The direction of a copy, by the names that the runtimes of CUDA, HIP and oneAPI give it.
pub(super) fn direction(name: &str) -> CopyKind {
    let kinds = [
        (["HtoD", "HostToDevice", "(M2D)", "(H2D)"], CopyKind::HostToDevice),
        (["DtoH", "DeviceToHost", "(D2M)", "(D2H)"], CopyKind::DeviceToHost),
        (["DtoD", "DeviceToDevice", "(D2D)", "PtoP"], CopyKind::DeviceToDevice),
    ];
    let kind = kinds.into_iter().find(|(words, _)| words.iter().any(|word| name.contains(word)));
    kind.map_or(CopyKind::Other, |(_, kind)| kind)
}

/// The kind of a wait.
pub(super) fn wait(kind: Option<&str>) -> SynchronizationKind {
    match kind {
        Some("Event Sync") => SynchronizationKind::Event,
        Some("Stream Wait Event") => SynchronizationKind::StreamWaitEvent,
        Some("Stream Sync") => SynchronizationKind::Stream,
        Some("Context Sync") => SynchronizationKind::Context,
        _ => SynchronizationKind::Other,
    }
}

/// The kind of wait that a call of a runtime or a driver is, by its name. None for other calls.
pub(crate) fn host_wait(name: &str) -> Option<SynchronizationKind> {
    let (object, _) = name.split_once("Synchronize")?;
    let kinds = [
        ("Event", SynchronizationKind::Event),
        ("Stream", SynchronizationKind::Stream),
        ("Device", SynchronizationKind::Context),
        ("Ctx", SynchronizationKind::Context),
    ];
    let kind = kinds.into_iter().find(|(word, _)| object.ends_with(word));
    Some(kind.map_or(SynchronizationKind::Other, |(_, kind)| kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_releases_and_runtimes_are_known() {
        assert_eq!(EventCategory::from_text("Runtime"), EventCategory::from_text("xpu_runtime"));
        assert_eq!(EventCategory::from_text("Memcpy"), Some(EventCategory::Work(ActivityKind::Copy)));
        assert_eq!(EventCategory::from_text("overhead"), None);
        assert_eq!(direction("Memcpy HtoD (Pageable -> Device)"), CopyKind::HostToDevice);
        assert_eq!(host_wait("cudaStreamSynchronize"), Some(SynchronizationKind::Stream));
        assert_eq!(host_wait("hipDeviceSynchronize"), host_wait("cuCtxSynchronize"));
        assert_eq!(host_wait("cudaLaunchKernel"), None);
        assert_eq!(direction("zeCommandListAppendMemoryCopy(D2M)"), CopyKind::DeviceToHost);
    }
}
