//! The processes of a run of the program, as Linux lists them, and which of them use a GPU unrecorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::injection::LIBRARY;

/// A process that computes on a GPU holds this device open: managed memory, which every CUDA context has.
const GPU_DEVICE: &str = "/dev/nvidia-uvm";
/// Start of the name of the driver's library in such a process.
const DRIVER_LIBRARY: &str = "libcuda.so";
/// The variable that loads the recorder into a program.
const INJECTION: &str = "CUDA_INJECTION64_PATH";

/// The program's process and its descendants, those included whose parents have ended.
#[derive(Debug)]
pub(crate) struct ProcessTree {
    /// `/proc`, or that of a test.
    root: PathBuf,
    /// Start of the program. Processes that started before it are not looked at.
    start_ticks: u64,
    /// Living processes, by process id. A process id comes round again: the start distinguishes the processes.
    members: BTreeMap<u32, TreeMember>,
    /// Processes of these that have ended.
    ended: Vec<EscapedProcess>,
}

/// A process as `/proc/PID/stat` describes it.
struct ProcessStat {
    parent_id: u32,
    start_ticks: u64,
    name: String,
}

#[derive(Debug)]
struct TreeMember {
    start_ticks: u64,
    /// False for a process that began later and has other parents: a container's, or one whose parent ended at once.
    is_descendant: bool,
    recording: RecordingState,
}

/// A process with regard to the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RecordingState {
    /// It uses no GPU, so far.
    WithoutGpu,
    /// The recorder is in it.
    Recorded,
    /// It uses a GPU without the recorder. At the next look it may be in it: the driver loads it a moment later.
    Suspected,
    Escaped(EscapedProcess),
}

/// A process that used a GPU and could not be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EscapedProcess {
    /// Its process id.
    pub process_id: u32,
    /// The name of its executable.
    pub name: String,
    /// True if the program started it. Otherwise it began meanwhile, and may belong to the program or not.
    pub is_descendant: bool,
    /// The cause, in a few words.
    pub cause: &'static str,
}

impl ProcessTree {
    /// The tree below the program's own process.
    pub(crate) fn of_program(process_id: u32) -> Self {
        Self::below(Path::new("/proc"), process_id)
    }

    fn below(root: &Path, process_id: u32) -> Self {
        let stat = ProcessStat::read(root, process_id);
        let member = stat.as_ref().map(|stat| (process_id, TreeMember::new(stat, true)));
        let start_ticks = stat.map_or(u64::MAX, |stat| stat.start_ticks);
        Self { root: root.to_owned(), start_ticks, members: member.into_iter().collect(), ended: Vec::new() }
    }

    /// Looks at all processes: new members, and those that use a GPU now.
    pub(crate) fn look(&mut self) {
        self.forget_ended();
        self.find_members();
        for (&process_id, member) in &mut self.members {
            if matches!(member.recording, RecordingState::Recorded | RecordingState::Escaped(_)) {
                continue;
            }
            // Not another process that got the number of one that has ended.
            let stat = ProcessStat::read(&self.root, process_id);
            if let Some(stat) = stat.filter(|stat| stat.start_ticks == member.start_ticks) {
                let folder = self.root.join(process_id.to_string());
                member.recording = member.after_look(&folder, process_id, stat.name);
            }
        }
    }

    /// Processes that used a GPU without the recorder in them.
    pub(crate) fn escaped(&self) -> Vec<EscapedProcess> {
        let living = self.members.values().filter_map(TreeMember::escaped);
        self.ended.iter().chain(living).cloned().collect()
    }

    /// A process that gets the number of one that has ended is looked at as any other.
    fn forget_ended(&mut self) {
        let root = &self.root;
        self.members.retain(|&process_id, member| {
            let stat = ProcessStat::read(root, process_id);
            let lives = stat.is_some_and(|stat| stat.start_ticks == member.start_ticks);
            self.ended.extend(member.escaped().filter(|_| !lives).cloned());
            lives
        });
    }

    /// Ends every process of the tree.
    pub(crate) fn kill(&mut self) {
        self.find_members();
        for (&process_id, member) in self.members.iter().filter(|(_, member)| member.is_descendant) {
            let stat = ProcessStat::read(&self.root, process_id);
            if stat.is_some_and(|stat| stat.start_ticks == member.start_ticks) {
                // A process that is gone needs no signal.
                kill(Pid::from_raw(process_id.cast_signed()), Signal::SIGKILL).ok();
            }
        }
    }

    fn find_members(&mut self) {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let others = ids.filter(|id| !self.members.contains_key(id));
        let others = others.filter_map(|id| Some((id, ProcessStat::read(&self.root, id)?)));
        let mut others: Vec<(u32, ProcessStat)> =
            others.filter(|(_, stat)| stat.start_ticks >= self.start_ticks).collect();
        loop {
            let count = self.members.len();
            others.retain(|(id, stat)| {
                let parent = self.members.get(&stat.parent_id);
                let is_descendant = parent.is_some_and(|parent| parent.is_descendant);
                if is_descendant {
                    self.members.insert(*id, TreeMember::new(stat, true));
                }
                !is_descendant
            });
            if self.members.len() == count {
                break;
            }
        }
        self.members.extend(others.iter().map(|(id, stat)| (*id, TreeMember::new(stat, false))));
    }
}

impl TreeMember {
    fn new(stat: &ProcessStat, is_descendant: bool) -> Self {
        Self { start_ticks: stat.start_ticks, is_descendant, recording: RecordingState::WithoutGpu }
    }

    fn escaped(&self) -> Option<&EscapedProcess> {
        match &self.recording {
            RecordingState::Escaped(process) => Some(process),
            _ => None,
        }
    }

    /// Its state after another look at its folder.
    fn after_look(&self, folder: &Path, process_id: u32, name: String) -> RecordingState {
        if !holds_gpu(folder) {
            return RecordingState::WithoutGpu;
        }
        // A child that a recorded process forked has inherited both.
        if is_mapped(folder, |name| name == LIBRARY) {
            RecordingState::Recorded
        } else if !is_mapped(folder, |name| name.starts_with(DRIVER_LIBRARY)) {
            // The device was only inherited by a program that does not use it.
            RecordingState::WithoutGpu
        } else if self.recording == RecordingState::Suspected {
            let (is_descendant, cause) = (self.is_descendant, cause(folder));
            RecordingState::Escaped(EscapedProcess { process_id, name, is_descendant, cause })
        } else {
            RecordingState::Suspected
        }
    }
}

impl ProcessStat {
    /// Reads the line of a process: its name in parentheses, and numbers behind them. `None` if there is no such process.
    fn read(root: &Path, process_id: u32) -> Option<Self> {
        let line = fs::read_to_string(root.join(process_id.to_string()).join("stat")).ok()?;
        let (start, rest) = line.rsplit_once(')')?;
        let (_, name) = start.split_once('(')?;
        let mut fields = rest.split_whitespace();
        let parent_id = fields.nth(1)?.parse().ok()?;
        let start_ticks = fields.nth(17)?.parse().ok()?;
        Some(Self { parent_id, start_ticks, name: name.to_owned() })
    }
}

fn holds_gpu(folder: &Path) -> bool {
    let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == Path::new(GPU_DEVICE))
}

/// True if the process has a file of such a name in its memory.
fn is_mapped(folder: &Path, is_library: impl Fn(&str) -> bool) -> bool {
    let maps = fs::read_to_string(folder.join("maps")).unwrap_or_default();
    maps.lines().filter_map(|line| line.rsplit_once('/')).any(|(_, name)| is_library(name))
}

fn cause(folder: &Path) -> &'static str {
    let is_injection = |variable: &[u8]| variable.starts_with(INJECTION.as_bytes());
    match fs::read(folder.join("environ")) {
        Err(_) => "its environment cannot be read",
        Ok(variables) if variables.split(|&byte| byte == 0).any(is_injection) => {
            "the driver did not load the recorder into it"
        }
        Ok(_) => "its environment lacks the recorder's variables",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A process in a folder that stands for `/proc`.
    fn add(root: &Path, id: u32, parent: u32, mapped: &[&str], environment: &str) {
        add_started(root, id, (parent, 1000 + id), mapped, environment);
    }

    /// The same, with its start in ticks next to its parent.
    fn add_started(root: &Path, id: u32, (parent, start): (u32, u32), mapped: &[&str], environment: &str) {
        let folder = root.join(id.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        let status =
            format!("{id} (worker ({id}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0\n");
        fs::write(folder.join("stat"), status).unwrap();
        fs::write(folder.join("environ"), environment).unwrap();
        let line = |name: &&str| format!("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 /usr/lib/{name}\n");
        fs::write(folder.join("maps"), mapped.iter().map(line).collect::<String>()).unwrap();
    }

    fn open_gpu(root: &Path, id: u32) {
        symlink(GPU_DEVICE, root.join(id.to_string()).join("fd/9")).unwrap();
    }

    #[test]
    fn a_child_that_uses_the_gpu_without_the_recorder_has_escaped() {
        let root = tempfile::TempDir::new().unwrap();
        let root = root.path();
        add(root, 10, 1, &["libcuda.so.580.1", LIBRARY], "CUDA_INJECTION64_PATH=/x\0");
        // A shell with a clean environment, and its child. The shell is gone at the second look.
        add(root, 11, 10, &[], "");
        add(root, 12, 11, &["libcuda.so.580.1"], "HOME=/\0");
        // The device inherited across an exec, an earlier process, and a child before its first use of CUDA.
        add(root, 13, 10, &["libc.so.6"], "");
        add(root, 9, 1, &["libcuda.so.580.1"], "");
        add(root, 15, 10, &["libcuda.so.580.1"], "");
        // One whose parent ended before it was seen.
        add(root, 16, 1, &["libcuda.so.580.1"], "");
        for id in [9, 10, 12, 13, 16] {
            open_gpu(root, id);
        }
        let mut tree = ProcessTree::below(root, 10);
        tree.look();
        assert_eq!(tree.escaped(), [], "the recorder may come a moment later");
        fs::remove_dir_all(root.join("11")).unwrap();
        tree.look();
        let cause = "its environment lacks the recorder's variables";
        let escaped = |process_id, is_descendant| EscapedProcess {
            process_id,
            name: format!("worker ({process_id}"),
            is_descendant,
            cause,
        };
        assert_eq!(tree.escaped(), [escaped(12, true), escaped(16, false)]);
        // They end, and their numbers come round again: for a child that escapes too, and for one that uses no GPU.
        for id in [12, 15, 16] {
            fs::remove_dir_all(root.join(id.to_string())).unwrap();
        }
        add_started(root, 12, (10, 2000), &[], "");
        add_started(root, 15, (10, 2000), &["libcuda.so.580.1"], "");
        open_gpu(root, 15);
        tree.look();
        tree.look();
        assert_eq!(tree.escaped(), [escaped(12, true), escaped(16, false), escaped(15, true)]);
    }

    #[test]
    fn the_environment_gives_the_cause() {
        let root = tempfile::TempDir::new().unwrap();
        let root = root.path();
        add(root, 10, 1, &[], "");
        add(root, 11, 10, &["libcuda.so.1"], "CUDA_INJECTION64_PATH=/x\0");
        open_gpu(root, 11);
        let mut tree = ProcessTree::below(root, 10);
        tree.look();
        tree.look();
        let causes: Vec<&str> = tree.escaped().iter().map(|process| process.cause).collect();
        assert_eq!(causes, ["the driver did not load the recorder into it"]);
    }

    #[test]
    fn a_tree_ends_with_all_its_processes() {
        use std::process::{Command, Stdio};
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", "sleep 600 & echo; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        // The shell has started its child when it has written a line.
        std::io::Read::read(&mut child.stdout.take().unwrap(), &mut [0]).unwrap();
        let mut tree = ProcessTree::of_program(child.id());
        tree.kill();
        assert!(!child.wait().unwrap().success());
        let mut below = tree.members.iter().filter(|(id, member)| member.is_descendant && **id != child.id());
        let sleep = *below.next().unwrap().0;
        let state = || fs::read_to_string(format!("/proc/{sleep}/stat")).unwrap_or_else(|_| ") Z".into());
        let mut looks = 0;
        // It ends when the signal arrives: a zombie, or gone.
        while !state().contains(") Z") {
            looks += 1;
            assert!(looks < 500, "{}", state());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
