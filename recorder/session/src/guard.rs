//! Guard between this library's errors and the host program.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use stallmap_schema::word::LossKind;

use crate::session;

static BROKEN: AtomicBool = AtomicBool::new(false);
/// Set where memory ran out, until that is counted.
static NO_MEMORY: AtomicBool = AtomicBool::new(false);

/// Runs `body` for the host program: a panic becomes `fallback`, is reported and counted once, and ends recording.
pub fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    if is_broken() { fallback } else { caught(body).unwrap_or(fallback) }
}

/// Runs `body`, after an earlier panic too: it writes the remaining rows.
pub fn guard_always(body: impl FnOnce()) {
    caught(body).unwrap_or_default();
}

/// True if a panic has ended recording.
pub fn is_broken() -> bool {
    BROKEN.load(Ordering::Acquire)
}

/// Ends recording, because the process got no memory. For an allocator: this allocates nothing and takes no lock.
pub fn memory_ran_out() {
    BROKEN.store(true, Ordering::Release);
    NO_MEMORY.store(true, Ordering::Release);
}

/// True once after memory ran out.
pub(crate) fn take_memory_ran_out() -> bool {
    NO_MEMORY.swap(false, Ordering::AcqRel)
}

fn caught<T>(body: impl FnOnce() -> T) -> Option<T> {
    let panic = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => return Some(done),
        Err(panic) => panic,
    };
    if !BROKEN.swap(true, Ordering::AcqRel) {
        say("an internal error ended the recording, the program runs on");
        let detail = text(&*panic);
        let count = || session::lose(LossKind::Segment, "an internal error ended the recording", 1, detail);
        // A second panic has nothing to add.
        catch_unwind(AssertUnwindSafe(count)).unwrap_or_default();
    }
    None
}

/// The panic's message.
fn text(panic: &(dyn Any + Send)) -> Option<String> {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
}

/// One line on stderr, never a panic: the host may have closed it.
pub fn say(message: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "stallmap-record: {}", stallmap_schema::text::printable(message)));
}
