//! Errors of a replay.

use std::path::PathBuf;

use stallmap_schema::capture::error::CaptureError;

/// A call of the driver that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("failed to {action}: {cause}")]
pub struct GpuError {
    /// The action that failed.
    pub action: String,
    /// The driver's name for the error.
    pub cause: String,
    /// Its number; 0 where it is not the driver's.
    pub code: i32,
}

impl GpuError {
    /// A failure that is not the driver's.
    pub fn own(action: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { action: action.into(), cause: cause.into(), code: 0 }
    }

    /// True if the context is of no more use: a kernel faulted, and every later call fails alike.
    pub fn is_sticky(&self) -> bool {
        // Faults of kernels, CUDA_ERROR_ILLEGAL_ADDRESS to CUDA_ERROR_TENSOR_MEMORY_LEAK, and the GPU's own.
        matches!(self.code, 700 | 702 | 709 | 710 | 714..=719 | 721 | 46 | 214 | 220 | 226 | 911)
    }
}

/// Errors that keep all bundles from being read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The GPU or its driver refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A file could not be read or written.
    #[error("failed to {action} `{path}`: {source}", path = .path.display())]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The plan of a worker cannot be read.
    #[error("failed to read the plan `{path}`: {cause}", path = .path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// Recorded addresses are not free in this process. In another one they may be.
    #[error("failed to reserve {mib} MiB at {address:#x}: the addresses are taken")]
    Taken {
        /// The first of them.
        address: u64,
        /// Size of the reservation.
        mib: u64,
    },
    /// More than fits into memory.
    #[error("the selected launches have more than {0} pages of memory, each counted for every launch")]
    TooMuch(usize),
    /// The configuration of the recording is missing.
    #[error("the recording's session is missing: STALLMAP_CONFIG is unset or invalid")]
    NoSession,
    /// The instrument cannot be used here. It has reported why.
    #[error("the instrument {0} could not be attached")]
    NotAttached(&'static str),
}
