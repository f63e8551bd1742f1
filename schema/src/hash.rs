//! Stable hashes: the identities that must survive processes, machines, languages and releases.
//!
//! All are XXH3-64 with seed 0 over length-prefixed fields (each length as 8 bytes, little endian).
//! The manifest names the algorithm, [`ALGORITHM`]. A change of any rule here is a new name.

use twox_hash::XxHash3_64;

use crate::id::{FrameId, FunctionId, ModuleId, NativeFrameId, NativeStack, PystatesHash};

/// Name and version of the rules in this file.
pub const ALGORITHM: &str = "stallmap-xxh3-64/1";

/// XXH3-64 over fields, each preceded by its length.
#[derive(Default)]
struct FieldHash(Vec<u8>);

impl FieldHash {
    fn text(self, value: &str) -> Self {
        self.raw(value.as_bytes())
    }

    fn number(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.0.extend_from_slice(bytes);
        self
    }

    fn hash(&self) -> u64 {
        checksum(&self.0)
    }
}

/// Bytes in hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// XXH3-64 with seed 0: the checksum of segments.
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The first eight bytes, little endian, of a BLAKE3 hash: how pages of bundles are compared.
pub fn content_hash(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Identity of a cubin: the first eight bytes, little endian, of its BLAKE3 hash.
pub fn module_id(cubin: &[u8]) -> ModuleId {
    ModuleId(content_hash(cubin))
}

/// Identity of a function: (module, mangled name).
pub fn function_id(module: ModuleId, mangled_name: &str) -> FunctionId {
    FunctionId(FieldHash::default().number(module.0).text(mangled_name).hash())
}

/// Identity of a frame: (normalized file, qualified function, first line, current line).
pub fn frame_id(file: &str, function: &str, first_line: u32, line: u32) -> FrameId {
    let fields = FieldHash::default().text(file).text(function);
    FrameId(fields.number(first_line.into()).number(line.into()).hash())
}

/// Identity of a whole Python stack, innermost frame first. An empty stack has a hash too.
pub fn pystates_hash(frames: &[FrameId]) -> PystatesHash {
    PystatesHash(frames.iter().fold(FieldHash::default(), |fields, frame| fields.number(frame.0)).hash())
}

/// Identity of a native frame: (code of its library, offset there, level of inlining).
pub fn native_frame(code: &str, offset: u64, level: u32) -> NativeFrameId {
    NativeFrameId(FieldHash::default().text(code).number(offset).number(level.into()).hash())
}

/// Identity of a whole native stack, innermost frame first.
pub fn native_stack(frames: &[NativeFrameId]) -> NativeStack {
    NativeStack(frames.iter().fold(FieldHash::default(), |fields, frame| fields.number(frame.0)).hash())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_together() {
        assert_ne!(frame_id("a", "b1", 2, 3), frame_id("a", "b", 12, 3));
        assert_ne!(frame_id("ab", "", 1, 1), frame_id("a", "b", 1, 1));
    }

    #[test]
    fn hashes_never_change() {
        let frame = frame_id("train.py", "Model.forward", 10, 12);
        assert_eq!(frame.0, 2_025_153_313_806_655_221);
        assert_eq!(pystates_hash(&[frame]).0, 13_229_486_650_888_420_563);
        assert_eq!(function_id(module_id(b"cubin"), "_Z4gelu").0, 15_704_237_431_065_549_315);
    }
}
