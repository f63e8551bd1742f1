//! Readers of bytes from elsewhere, whose panics are errors like any other.
//!
//! Decoders of Parquet and Arrow panic on some damaged bytes. A program prints a panic before anybody can catch it: one that
//! asks [`is_contained`] prints none that becomes an error anyway.

use std::any::Any;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

thread_local! {
    /// Readers of this thread within each other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The result of a reader.
///
/// # Errors
/// Fails with the text of the reader's panic.
pub fn contained<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    DEPTH.set(DEPTH.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(read));
    DEPTH.set(DEPTH.get() - 1);
    result.map_err(|panic| text(panic.as_ref()))
}

/// The result of a reader that waits.
///
/// # Errors
/// Fails with the text of the reader's panic.
pub async fn contained_future<T>(read: impl Future<Output = T>) -> Result<T, String> {
    let mut read = pin!(read);
    poll_fn(|context| match contained(|| read.as_mut().poll(context)) {
        Ok(result) => result.map(Ok),
        Err(text) => Poll::Ready(Err(text)),
    })
    .await
}

/// True while this thread runs a reader: its panic becomes an error.
pub fn is_contained() -> bool {
    DEPTH.get() > 0
}

/// The message of a panic.
pub fn text(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("its reader gave up: {}", text.unwrap_or("no reason given"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_reader_is_an_error() {
        assert_eq!(contained(|| contained(is_contained)), Ok(Ok(true)));
        let failed: Result<(), String> = contained(|| panic!("no {}", "page"));
        assert_eq!(failed, Err("its reader gave up: no page".to_owned()));
        assert!(!is_contained());
    }
}
