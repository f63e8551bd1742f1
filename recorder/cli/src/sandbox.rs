//! A sandbox for the process that runs machine code of a capture.
//!
//! ```text
//! policy   the files that the process reads and writes, and the devices that it uses
//!   → files   Landlock: all other files are refused, and so are TCP, signals and abstract sockets
//!   → calls   seccomp: programs, processes, connections and changes of the system are refused
//!   → state   the parts that are in force, and those that the kernel lacks
//! ```
//!
//! [`enter`] confines the calling thread and the threads that it starts, for good. A process calls it before it starts
//! any and before it reads anything of a capture.

mod calls;
mod files;
mod policy;
mod state;

pub(crate) use policy::FilePolicy;
pub(crate) use state::SandboxState;

/// Confines the calling thread. What the kernel does not offer is a gap of the state, not an error.
pub(crate) fn enter(policy: &FilePolicy) -> SandboxState {
    close_inherited();
    let mut state = SandboxState::default();
    match files::confine(policy) {
        Ok(abi) => state.set_files(abi),
        Err(cause) => state.gaps.push(format!("files are not protected: {cause}")),
    }
    if let Err(cause) = calls::confine() {
        state.gaps.push(format!("programs, processes and connections are not refused: {cause}"));
    }
    state
}

/// Closes the files that the parent process left open, but for standard input, output and error.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for file in open.into_iter().filter(|file| *file > libc::STDERR_FILENO) {
        // The folder's own is closed already.
        nix::unistd::close(file).ok();
    }
}
