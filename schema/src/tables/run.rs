//! Runs of programs, each with its machine, instrument and options.

use crate::id::RunId;
use crate::word::Instrument;

crate::tables! {
    /// One process under one instrument.
    Run "run" key [run_id] sort [run_id] {
        /// The run.
        run_id: RunId,
        /// The instrument.
        instrument: Instrument,
        /// The run whose launches define the kernel_ids that this run refers to. Itself for a reference run.
        reference_run_id: RunId => "run"."run_id",
        /// The program's path as given.
        program: String,
        /// The program's arguments as given, one JSON array of strings.
        arguments: String,
        /// The directory that the program started in.
        working_directory: String,
        /// The host's name.
        host: String,
        /// The operating system: name, release, machine.
        system: String,
        /// The process id.
        process_id: u32,
        /// The process id of the parent. Null where it is not known.
        parent_process_id: Option<u32>,
        /// The process's rank among all processes of a distributed program, from its launcher (`torchrun`, `mpirun`,
        /// `srun`). Null where there is none.
        rank: Option<u32>,
        /// The rank among the processes of its host.
        local_rank: Option<u32>,
        /// Processes of the distributed program.
        world_size: Option<u32>,
        /// Start of recording, nanoseconds since the Unix epoch.
        started_ns: i64,
        /// End of recording, nanoseconds since the Unix epoch. Null where the process died unseen.
        ended_ns: Option<i64>,
        /// Unix time minus CLOCK_MONOTONIC at the start: every `_ns` column is CLOCK_MONOTONIC plus this.
        clock_offset_ns: i64,
        /// The program's exit code. Null where a signal ended it or where it is not known.
        exit_code: Option<i32>,
        /// The signal that ended the program, if one did.
        exit_signal: Option<i32>,
        /// Version of the GPU's driver, such as 580.159.03.
        driver_version: Option<String>,
        /// CUDA version that the driver supports, such as 13000.
        cuda_version: Option<i32>,
        /// Version of the instrument's library: CUPTI's or the sanitizer API's, with its path.
        instrument_version: Option<String>,
        /// Python's version, where the program is a Python program.
        python_version: Option<String>,
        /// PyTorch's version, where it was imported.
        torch_version: Option<String>,
        /// GPU cycles between two PC samples of one multiprocessor. Null where no samples were taken.
        sampling_period_cycles: Option<u64>,
    }
    /// One recording option of a run.
    RunOption "run_option" key [run_id, name] sort [run_id, name] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The option's name as on the command line, without dashes.
        name: String,
        /// Its value as text.
        value: String,
    }
    /// A GPU that a run used.
    Device "device" key [run_id, device_id] sort [run_id, device_id] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// CUDA's device ordinal in the process.
        device_id: i32,
        /// The GPU's name.
        name: String,
        /// The GPU's UUID, such as GPU-6f0f…. Null where the driver did not report it.
        uuid: Option<String>,
        /// Compute capability, major.
        compute_major: i32,
        /// Compute capability, minor.
        compute_minor: i32,
        /// Streaming multiprocessors.
        multiprocessor_count: i32,
        /// Bytes of device memory.
        memory_bytes: u64,
        /// Bytes of L2 cache.
        l2_bytes: u64,
        /// Largest SM clock.
        sm_clock_khz: i32,
        /// Largest memory clock.
        memory_clock_khz: i32,
        /// Width of the memory bus. Null in captures of earlier releases.
        memory_bus_bits: Option<i32>,
    }
}
