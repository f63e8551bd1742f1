//! The access of an instruction: its kind, space and size, from the text of its SASS.

use stallmap_schema::word::{AccessKind, Space};

/// An access of each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TracedInstruction {
    pub(super) kind: AccessKind,
    pub(super) space: Space,
    /// Bytes that a lane accesses.
    pub(super) bytes: u8,
}

impl TracedInstruction {
    /// The access of SASS such as `@!P0 LDG.E.128 R4, desc[UR4][R2.64] ;`. An error is the reason for none.
    pub(super) fn from_sass(sass: &str) -> Result<Self, &'static str> {
        let mut words = sass.split_whitespace().filter(|word| !word.starts_with("/*"));
        let mut word = words.next().unwrap_or_default();
        if word.starts_with('@') {
            word = words.next().unwrap_or_default();
        }
        let mut parts = word.trim_end_matches(';').split('.');
        let (kind, space) = match parts.next().unwrap_or_default() {
            "LDG" => (AccessKind::Read, Space::Global),
            "STG" => (AccessKind::Write, Space::Global),
            "ATOMG" | "RED" | "REDG" => (AccessKind::Atomic, Space::Global),
            "LDS" | "LDSM" => (AccessKind::Read, Space::Shared),
            "STS" | "STSM" => (AccessKind::Write, Space::Shared),
            "ATOMS" => (AccessKind::Atomic, Space::Shared),
            "LDL" => (AccessKind::Read, Space::Local),
            "STL" => (AccessKind::Write, Space::Local),
            "LD" | "ST" | "ATOM" => return Err("requests whose address space is not known"),
            "LDGSTS" => return Err("requests of copies to shared memory: two addresses of a lane"),
            _ => return Err("requests of other instructions"),
        };
        let is_matrix = word.starts_with("LDSM") || word.starts_with("STSM");
        // A lane of a matrix instruction has the address of a row of 16 bytes.
        let bytes = if is_matrix { 16 } else { parts.filter_map(bytes).next_back().unwrap_or(4) };
        Ok(Self { kind, space, bytes })
    }
}

/// The size that a modifier names.
fn bytes(modifier: &str) -> Option<u8> {
    match modifier {
        "U8" | "S8" => Some(1),
        "U16" | "S16" => Some(2),
        "64" | "U64" | "S64" | "F64" => Some(8),
        "128" => Some(16),
        "256" => Some(32),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_accesses() {
        let access = |kind, space, bytes| Ok(TracedInstruction { kind, space, bytes });
        let (read, write, atomic) = (AccessKind::Read, AccessKind::Write, AccessKind::Atomic);
        for (sass, expected) in [
            ("LDG.E.128 R4, desc[UR4][R2.64] ;", access(read, Space::Global, 16)),
            ("@!P0 LDG.E R4, [R2.64] ;", access(read, Space::Global, 4)),
            ("/*0010*/ LDG.E.U16.CONSTANT R4, [R2.64+0x10] ;", access(read, Space::Global, 2)),
            ("STS.64 [R2], R4 ;", access(write, Space::Shared, 8)),
            ("LDSM.16.M88.4 R4, [R2] ;", access(read, Space::Shared, 16)),
            ("RED.E.ADD.F64.RN.STRONG.GPU [R2.64], R4 ;", access(atomic, Space::Global, 8)),
            ("LDL.U8 R4, [R1] ;", access(read, Space::Local, 1)),
            ("LD.E R4, [R2.64] ;", Err("requests whose address space is not known")),
            ("LDC R1, c[0x0][0x28] ;", Err("requests of other instructions")),
            ("@P0", Err("requests of other instructions")),
            ("", Err("requests of other instructions")),
        ] {
            assert_eq!(TracedInstruction::from_sass(sass), expected, "{sass}");
        }
    }
}
