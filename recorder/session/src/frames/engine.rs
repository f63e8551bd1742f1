//! Launches of the threads of PyTorch's autograd engine, which run no Python: they have the stack of the call of backward that
//! they work for, in a run that records no ops.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use stallmap_schema::id::PystatesHash;

use crate::session;

/// Beginning of the names of the engine's threads.
const THREAD_NAME: &[u8] = b"pt_autograd_";
/// Bytes of a thread's name, with the zero behind it.
const MAX_NAME_BYTES: usize = 16;

/// A call of backward that runs.
struct BackwardCall {
    thread: ThreadId,
    generation: usize,
    stack: Option<PystatesHash>,
}

static CALLS: Mutex<Vec<BackwardCall>> = Mutex::new(Vec::new());

thread_local! {
    /// True for a thread of the engine. Unknown until it launches.
    static IS_ENGINE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// A call of backward begins on this thread.
pub fn begins() {
    let call = BackwardCall {
        thread: thread::current().id(),
        generation: session::generation(),
        stack: super::of_thread().or_else(of_thread),
    };
    CALLS.lock().unwrap_or_else(PoisonError::into_inner).push(call);
}

/// The last call that began on this thread ends.
pub fn ended() {
    let thread = thread::current().id();
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = calls.iter().rposition(|call| call.thread == thread) {
        calls.remove(index);
    }
}

/// The stack of the call that this thread works for: of the newest one. `None` outside of the engine.
pub fn of_thread() -> Option<PystatesHash> {
    let is_engine = IS_ENGINE.try_with(|known| {
        known.get().unwrap_or_else(|| {
            let is_engine = is_named_so();
            known.set(Some(is_engine));
            is_engine
        })
    });
    if is_engine != Ok(true) {
        return None;
    }
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    calls.iter().rev().find(|call| call.generation == session::generation()).and_then(|call| call.stack)
}

fn is_named_so() -> bool {
    let mut name = [c_char::default(); MAX_NAME_BYTES];
    // SAFETY: the thread is this one, and the length is that of the bytes. glibc ends the name with a zero.
    let code = unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr(), name.len()) };
    // SAFETY: as above: with code 0 the name has its zero.
    code == 0 && unsafe { CStr::from_ptr(name.as_ptr()) }.to_bytes().starts_with(THREAD_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_engine_are_known_by_their_name() {
        let is_engine = |name: &str| {
            thread::Builder::new().name(name.to_owned()).spawn(is_named_so).unwrap().join().unwrap()
        };
        assert!(is_engine("pt_autograd_0") && !is_engine("python") && !is_engine("pt_main"));
    }

    #[test]
    fn outside_of_a_call_there_is_no_stack() {
        begins();
        assert_eq!(of_thread(), None);
        ended();
        ended();
    }
}
