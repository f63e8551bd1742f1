//! Tests of the capture's layout, in one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod segment;
