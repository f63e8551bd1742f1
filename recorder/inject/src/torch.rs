//! The symbols that Python looks for; [`stallmap_session::torch`] documents them.
#![expect(unsafe_code, reason = "exported symbols need no_mangle, and take pointers")]

use std::borrow::Cow;
use std::ffi::c_void;

use stallmap_instruments as instruments;
use stallmap_session::frames::{self, engine};
use stallmap_session::guard::guard;
use stallmap_session::native;
use stallmap_session::session;
use stallmap_session::torch::calls::{self, ABI_VERSION};
use stallmap_session::torch::texts;

use crate::memory;

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_abi_version() -> u32 {
    ABI_VERSION
}

/// Mode of the recording. Starts the session where `start` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_mode(start: u32) -> u32 {
    guard(0, || {
        let mode = calls::mode(start != 0);
        if start != 0 && mode != 0 {
            memory::set_aside();
        }
        mode
    })
}

/// The number of a text.
///
/// # Safety
/// `bytes` points to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_text(bytes: *const c_void, length: usize) -> i64 {
    // SAFETY: the caller's promise is the same.
    guard(texts::NONE, || texts::number(&unsafe { text(bytes, length) }))
}

/// Records a stack. Returns its hash.
///
/// # Safety
/// `bytes` points to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_state(bytes: *const c_void, length: usize) -> i64 {
    // SAFETY: the caller's promise is the same.
    guard(0, || calls::state(&unsafe { text(bytes, length) }))
}

/// Records the operations that a line of generated code computes.
///
/// # Safety
/// `bytes` points to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_origins(bytes: *const c_void, length: usize) {
    // SAFETY: the caller's promise is the same.
    guard((), || calls::origins(&unsafe { text(bytes, length) }));
}

/// Records a compiled version of a Triton kernel.
///
/// # Safety
/// `bytes` points to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_triton_kernel(bytes: *const c_void, length: usize) {
    // SAFETY: the caller's promise is the same.
    guard((), || calls::triton_kernel(&unsafe { text(bytes, length) }));
}

/// Begins an op or region.
///
/// # Safety
/// `words` points to `length` readable words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_op_begin(words: *const i64, length: usize) -> i64 {
    // SAFETY: the caller's promise is the same.
    guard(0, || calls::op_begin(unsafe { slice(words, length) }))
}

/// Ends an op or region.
///
/// # Safety
/// `words` points to `length` readable words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_op_end(words: *const i64, length: usize) {
    // SAFETY: the caller's promise is the same.
    guard((), || calls::op_end(unsafe { slice(words, length) }));
}

/// Begins a range of this thread.
///
/// # Safety
/// `words` points to `length` readable words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_range_push(words: *const i64, length: usize) {
    // SAFETY: the caller's promise is the same.
    guard((), || calls::range_push(unsafe { slice(words, length) }));
}

/// Ends the innermost range of this thread and a source.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_range_pop(source: u32) {
    guard((), || calls::range_pop(source));
}

/// Gives numbers to a region.
///
/// # Safety
/// `words` points to `length` readable words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_metrics(words: *const i64, length: usize) {
    // SAFETY: the caller's promise is the same.
    guard((), || calls::metrics(unsafe { slice(words, length) }));
}

/// Names tensors.
///
/// # Safety
/// `words` points to `length` readable words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_name(words: *const i64, length: usize) {
    // SAFETY: the caller's promise is the same.
    guard((), || calls::name(unsafe { slice(words, length) }));
}

/// Learns how this Python lays out its frames.
///
/// # Safety
/// `words` points to `length` readable words, and `folders` to `bytes` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stallmap_frames(
    words: *const i64,
    length: usize,
    folders: *const c_void,
    bytes: usize,
) -> u32 {
    // SAFETY: the caller's promises are the same.
    guard(0, || u32::from(frames::learn(unsafe { slice(words, length) }, &unsafe { text(folders, bytes) })))
}

/// Records the stack of this thread as a launch would. Returns its hash, 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_stack() -> i64 {
    guard(0, || frames::of_thread().or_else(engine::of_thread).map_or(0, |hash| hash.0.cast_signed()))
}

/// A call of backward begins on this thread, or ends where `begins` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_engine(begins: u32) {
    guard((), || if begins == 0 { engine::ended() } else { engine::begins() });
}

/// Records the native stack of this thread as a launch would. Returns its hash, 0 where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_native_stack() -> u64 {
    guard(0, || native::of_thread().map_or(0, |stack| stack.0))
}

/// Leaves launches out, or no longer.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_pause(paused: u32) {
    guard((), || session::set_paused(paused != 0));
}

/// Records a fact about the run.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_fact(name: i64, value: i64) {
    guard((), || calls::fact(name, value));
}

/// Counts a loss.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_lose(kind: u32, reason: i64, count: u64, detail: i64) {
    guard((), || calls::lose(kind, reason, count, detail));
}

/// Gives way to a profiler of the program's own that is about to start.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_give_way(profiler: i64) {
    guard((), || instruments::give_way(texts::text(profiler).unwrap_or("a profiler")));
}

/// Hooks the caching allocator.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_hook_allocator() -> i64 {
    guard(0, calls::hook_allocator)
}

/// # Safety
/// `bytes` points to `length` readable bytes that do not change while the text lives.
unsafe fn text<'a>(bytes: *const c_void, length: usize) -> Cow<'a, str> {
    if bytes.is_null() {
        return "".into();
    }
    // SAFETY: not null, and the caller's promise is the same.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(bytes.cast(), length) })
}

/// # Safety
/// `words` points to `length` readable words, aligned, that do not change while the slice lives.
unsafe fn slice<'a>(words: *const i64, length: usize) -> &'a [i64] {
    if words.is_null() || !words.is_aligned() {
        return &[];
    }
    // SAFETY: not null and aligned, and the caller's promise is the same.
    unsafe { std::slice::from_raw_parts(words, length) }
}
