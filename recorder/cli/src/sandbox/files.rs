//! Landlock: the files that a process may use.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, RestrictionStatus,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, make_bitflags,
    path_beneath_rules,
};

use crate::sandbox::policy::FilePolicy;

/// The newest version whose rights are used. Older kernels enforce those that they know.
const NEWEST: ABI = ABI::V6;
/// All versions that may be in force, in order.
const VERSIONS: [ABI; 8] = [ABI::V1, ABI::V2, ABI::V3, ABI::V4, ABI::V5, ABI::V6, ABI::V7, ABI::V8];

/// This process in the file system: CUDA names its threads by files in it, and fails where it cannot.
const SELF: &str = "/proc/self";
/// Holds the folder above open: the rule is of this very folder, and the kernel would make another one later.
static HELD: OnceLock<OwnedFd> = OnceLock::new();

/// Confines the calling thread. Returns the version of Landlock's rules, or the reason why there are none.
pub(crate) fn confine(policy: &FilePolicy) -> Result<u32, String> {
    let status = restrict(policy).map_err(|error| error.to_string())?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => {
            Err("Landlock is not enabled in this kernel".to_owned())
        }
        (RulesetStatus::NotEnforced, _) => Err("this kernel has no Landlock".to_owned()),
        (_, LandlockStatus::Available { effective_abi, .. }) => Ok(number(effective_abi)),
        (_, _) => Err("Landlock gave no version".to_owned()),
    }
}

fn number(abi: ABI) -> u32 {
    let known = VERSIONS.iter().filter(|version| **version <= abi).count();
    u32::try_from(known).unwrap_or(0)
}

fn restrict(policy: &FilePolicy) -> Result<RestrictionStatus, RulesetError> {
    // Programs are not to be run at all: no rule gives that right.
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    // Links, pipes and devices are left out: the parent process reads these folders later.
    let write =
        read | make_bitflags!(AccessFs::{WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir});
    let device = read | make_bitflags!(AccessFs::{WriteFile | IoctlDev});
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(&policy.read, read))?
        .add_rules(path_beneath_rules(&policy.write, write))?
        .add_rules(path_beneath_rules(&policy.devices, device))?
        .add_rules(path_beneath_rules(["/dev"], AccessFs::ReadDir))?
        .add_rules(own(read | make_bitflags!(AccessFs::{WriteFile | Truncate})))?;
    rules.restrict_self()
}

/// The rule of this process's own folder.
fn own(access: BitFlags<AccessFs>) -> Option<Result<PathBeneath<PathFd>, RulesetError>> {
    let path = std::fs::canonicalize(SELF).ok()?;
    let held = std::fs::File::open(&path).ok()?;
    drop(HELD.set(OwnedFd::from(held)));
    Some(Ok(PathBeneath::new(PathFd::new(&path).ok()?, access)))
}
