//! Python stacks of launches that no op explains, read without Python's help.
//!
//! Programs give up the GIL around launches, and a launch that waits for it can deadlock. A thread that launches is inside a
//! call, so its own frames do not change: they are read as memory. [`layout`] finds out how this Python lays them out,
//! from a stack that Python describes, and reads nothing before it has read that stack rightly.
#![expect(unsafe_code, reason = "reads frames of Python as memory")]

mod driver;
pub mod engine;
mod layout;
mod lines;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, OnceLock, PoisonError};

pub use driver::learn_at_driver;
use layout::FrameLayout;
use stallmap_schema::id::PystatesHash;

use crate::session;
use crate::torch::calls;

/// Frames of a stack that are read.
const MAX_FRAMES: usize = 256;
/// Stacks whose hash is remembered.
const MAX_STACKS: usize = 1 << 16;
/// Qualified name of the frames between Python's own frames, which Python does not show.
const TRAMPOLINE: &str = "<interpreter trampoline>";

/// The layout of frames, and the roots that name their files.
struct FrameReader {
    layout: FrameLayout,
    this_thread: ThisThread,
    is_ending: IsEnding,
    /// Folders that names of files are relative to.
    roots: Vec<String>,
    /// Folders whose frames are no part of the program's stacks.
    own: Vec<String>,
}

/// PyGILState_GetThisThreadState, which needs no GIL.
type ThisThread = extern "C" fn() -> *const c_void;

/// Py_IsFinalizing, by its name of 3.13 or before. Not 0 where the interpreter gives up the states of other threads.
type IsEnding = extern "C" fn() -> c_int;

static READER: OnceLock<FrameReader> = OnceLock::new();

/// The hashes of stacks, with the generation whose session recorded them.
type KnownStacks = (usize, HashMap<u64, Option<PystatesHash>>);

static STACKS: Mutex<Option<KnownStacks>> = Mutex::new(None);

thread_local! {
    /// True while this thread reads its stack.
    static IS_READING: Cell<bool> = const { Cell::new(false) };
}

/// One frame: its code and its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WalkedFrame {
    code: usize,
    instruction: usize,
}

/// Learns how this Python lays out its frames. `words` describe the calling thread's stack, as [`layout::ShownStack`] has
/// it. Lines of `folders`: roots of names, an empty line, folders of stallmap. Returns true if stacks can be read.
pub fn learn(words: &[i64], folders: &str) -> bool {
    if READER.get().is_some() {
        return true;
    }
    let Some((this_thread, is_ending)) = python() else { return false };
    let shown = layout::ShownStack::read(words);
    let Some(layout) = shown.and_then(|shown| layout::find(&shown, this_thread().addr())) else {
        return false;
    };
    let (roots, own) = folders.split_once("\n\n").unwrap_or((folders, ""));
    let list = |text: &str| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let reader = FrameReader { layout, this_thread, is_ending, roots: list(roots), own: list(own) };
    READER.get_or_init(|| reader);
    true
}

/// Records the Python stack of this thread. `None` where it has none, or where frames cannot be read.
pub fn of_thread() -> Option<PystatesHash> {
    let reader = READER.get()?;
    if IS_READING.try_with(|reading| reading.replace(true)).unwrap_or(true) {
        return None;
    }
    let hash = reader.stack();
    IS_READING.set(false);
    hash
}

/// Python's functions, if this process runs Python.
fn python() -> Option<(ThisThread, IsEnding)> {
    let this_thread = symbol(c"PyGILState_GetThisThreadState")?;
    let is_ending = symbol(c"Py_IsFinalizing").or_else(|| symbol(c"_Py_IsFinalizing"))?;
    // SAFETY: the functions of these names have these types in every Python.
    Some(unsafe {
        (
            std::mem::transmute::<*mut c_void, ThisThread>(this_thread),
            std::mem::transmute::<*mut c_void, IsEnding>(is_ending),
        )
    })
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C text.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    Some(symbol).filter(|symbol| !symbol.is_null())
}

impl FrameReader {
    fn stack(&self) -> Option<PystatesHash> {
        if (self.is_ending)() != 0 {
            return None;
        }
        let thread = (self.this_thread)();
        if thread.is_null() {
            return None;
        }
        let frames = self.layout.walk(thread.addr(), &layout::read_own);
        if frames.is_empty() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for frame in &frames {
            // Another function may have got the address of one that is gone.
            (frame, self.layout.identity(frame.code)).hash(&mut hasher);
        }
        let key = hasher.finish();
        let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        let (generation, known) = stacks.get_or_insert_default();
        if *generation != session::generation() || known.len() >= MAX_STACKS {
            *generation = session::generation();
            known.clear();
        }
        *known.entry(key).or_insert_with(|| self.record(&frames))
    }

    /// The hash of a stack that was not seen before.
    fn record(&self, frames: &[WalkedFrame]) -> Option<PystatesHash> {
        let mut text = String::new();
        for frame in frames {
            let Some(shown) = self.layout.describe(*frame) else { continue };
            if shown.function == TRAMPOLINE || self.own.iter().any(|own| shown.file.starts_with(own)) {
                continue;
            }
            let (line, first_line) = (shown.line.to_string(), shown.first_line.to_string());
            let file = self.normalized(&shown.file);
            for field in [&file, &shown.file, &shown.function, &first_line, &line] {
                text.push_str(field);
                text.push('\0');
            }
        }
        if text.is_empty() { None } else { calls::stack(&text) }
    }

    /// The name of a file from the longest of the roots that hold it.
    fn normalized(&self, file: &str) -> String {
        let file = without_steps_back(file);
        let found = self.roots.iter().filter_map(|root| file.strip_prefix(root.as_str()));
        found.min_by_key(|rest| rest.len()).unwrap_or(&file).to_owned()
    }
}

/// An absolute path without `.` and `..`, as Python's hooks name files.
fn without_steps_back(file: &str) -> Cow<'_, str> {
    if !file.starts_with('/') || !file.split('/').any(|part| matches!(part, "." | "..")) {
        return Cow::Borrowed(file);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in file.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    Cow::Owned(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_steps_back_is_named_as_the_one_without() {
        assert_eq!(without_steps_back("/home/a/runs/../train.py"), "/home/a/train.py");
        assert_eq!(without_steps_back("/home/./a/../../../b.py"), "/b.py");
        assert_eq!(without_steps_back("/home/a/train.py"), "/home/a/train.py");
        assert_eq!(without_steps_back("<frozen runpy>"), "<frozen runpy>");
        assert_eq!(without_steps_back("../train.py"), "../train.py");
    }
}
