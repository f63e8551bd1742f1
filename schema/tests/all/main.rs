//! Tests of the capture's layout, in one binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "any value does, cut or not"
)]

mod capture;
mod check;
mod elsewhere;
mod full_disk;
mod hostile;
mod lanes;
mod reference_page;
mod round_trip;
mod segment;
mod share;
use stallmap_testkit::tiny;
