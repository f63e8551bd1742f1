//! Tests of sessions, in processes of their own: they crash, fork and fill the disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod session;
