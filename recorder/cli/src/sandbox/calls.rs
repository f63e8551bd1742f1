//! seccomp: the system calls that a process may make.
//!
//! The calls that CUDA makes differ by release, so those are named that it does not need: they start programs and
//! processes, reach other processes, connect, or change the system. They fail with EPERM, as they do without the
//! permission. A few fail with ENOSYS, and their callers then take an older call that a filter can look into.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Calls that are refused whatever their arguments are.
const REFUSED: [c_long; 58] = [
    // Programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_kcmp,
    // Connections.
    libc::SYS_connect,
    // Attributes of files, which Landlock does not cover.
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    // Other views of the file system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    // The system.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_mknodat,
];
/// Older calls, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const OLDER: [c_long; 11] = [
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_mknod,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [c_long; 0] = [];
/// Not in libc for every architecture. Its number is the same on all.
const SYS_FCHMODAT2: c_long = 452;
/// Calls that are answered as if the kernel did not have them.
const ABSENT: [c_long; 4] =
    [libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Bit of the calls of the x32 interface, which have the same numbers, and some of their own.
const X32: c_long = 0x4000_0000;
const X32_OWN: std::ops::RangeInclusive<c_long> = 512..=547;

/// Writes input to a terminal, as if it were typed.
const TIOCSTI: u64 = 0x5412;
/// Commands for a console, one of which does the same.
const TIOCLINUX: u64 = 0x541c;

/// Confines the calling thread. The error is the reason why it is not confined.
pub(crate) fn confine() -> Result<(), String> {
    let absent = ABSENT.into_iter().map(|call| (call, Vec::new())).collect();
    let refused = refused(u64::from(std::process::id())).map_err(|error| error.to_string())?;
    for (rules, code) in [(absent, libc::ENOSYS), (refused, libc::EPERM)] {
        let program = program(rules, code).map_err(|error| error.to_string())?;
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

type SyscallRules = BTreeMap<c_long, Vec<SeccompRule>>;

fn program(mut rules: SyscallRules, code: i32) -> Result<BpfProgram, BackendError> {
    let x32: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
    rules.extend(x32);
    let action = SeccompAction::Errno(code.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
}

/// The refused calls, with the conditions for those that depend on their arguments.
fn refused(process_id: u64) -> Result<SyscallRules, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: SyscallRules = REFUSED.into_iter().chain(OLDER).map(|call| (call, Vec::new())).collect();
    rules.extend(X32_OWN.map(|call| (call | X32, Vec::new())));
    let thread = u64::try_from(libc::CLONE_THREAD).unwrap_or(0);
    let local = u64::try_from(libc::AF_UNIX).unwrap_or(0);
    let conditions = [
        // Threads are allowed, processes are not.
        (libc::SYS_clone, vec![number(0, MaskedEq(thread), 0)?]),
        // The driver has a socket of this kind, which connects to nothing.
        (libc::SYS_socket, vec![number(0, Ne, local)?]),
        (libc::SYS_sendto, vec![pointer(4, Ne, 0)?]),
        (libc::SYS_kill, vec![number(0, Ne, process_id)?]),
        (libc::SYS_tgkill, vec![number(0, Ne, process_id)?]),
        (libc::SYS_rt_sigqueueinfo, vec![number(0, Ne, process_id)?]),
        (libc::SYS_rt_tgsigqueueinfo, vec![number(0, Ne, process_id)?]),
        (libc::SYS_prlimit64, vec![number(0, Ne, 0)?, number(0, Ne, process_id)?]),
        (libc::SYS_utimensat, vec![pointer(1, Ne, 0)?]),
        (libc::SYS_ioctl, vec![number(1, Eq, TIOCSTI)?]),
        (libc::SYS_ioctl, vec![number(1, Eq, TIOCLINUX)?]),
    ];
    for (call, conditions) in conditions {
        rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
    }
    Ok(rules)
}

fn number(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn pointer(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_refused_once_and_in_both_interfaces() {
        let rules = refused(1).unwrap();
        let all = || REFUSED.into_iter().chain(OLDER);
        assert_eq!(all().collect::<std::collections::BTreeSet<_>>().len(), all().count());
        for call in all() {
            assert!(rules[&call].is_empty(), "{call} is refused whatever its arguments are");
        }
        assert_eq!(rules[&libc::SYS_ioctl].len(), 2);
        let program = program(rules, libc::EPERM).unwrap();
        // The kernel refuses filters of more than 4096 instructions.
        assert!((200..4096).contains(&program.len()), "{}", program.len());
    }
}
