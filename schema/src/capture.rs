//! Layout on disk: the finished container, and the segments of a recording in progress.

pub mod recording;
pub mod request;
