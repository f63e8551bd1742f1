//! Which machine instructions access memory: just enough to count them. The full decoder is another crate's work.
//!
//! Since sm_70 an instruction is 128 bits, and its low nine bits name its family. The families below were read off
//! kernels compiled for sm_75 to sm_100 with every kind of memory instruction in them.

/// Bytes of an instruction.
const BYTES: usize = 16;

/// How an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// The sanitizer has a patch point for it, which fires.
    Covered,
    /// Tensor-map and bulk copies, textures and surfaces: the sanitizer does not see them.
    Uncovered,
}

/// (instructions that access memory, those of them that no patch point covers) in a function's code.
pub(super) fn count_memory(code: &[u8], sm: u32) -> (u32, u32) {
    let accesses = code.chunks_exact(BYTES).filter_map(|instruction| access(instruction, sm));
    accesses.fold((0, 0), |(all, uncovered), access| {
        (all + 1, uncovered + u32::from(access == Access::Uncovered))
    })
}

fn access(instruction: &[u8], sm: u32) -> Option<Access> {
    let family = u16::from_le_bytes([*instruction.first()?, *instruction.get(1)?]) & 0x1ff;
    let (_, since, access) = FAMILIES.iter().find(|(known, ..)| *known == family)?;
    (sm >= *since).then_some(*access)
}

/// (family, the first architecture on which it means this, how it accesses memory).
const FAMILIES: &[(u16, u32, Access)] = &[
    (0x03b, 75, Access::Covered),   // LDSM
    (0x044, 90, Access::Covered),   // STSM
    (0x160, 70, Access::Uncovered), // TEX
    (0x163, 70, Access::Uncovered), // TLD4
    (0x166, 70, Access::Uncovered), // TLD
    (0x16c, 70, Access::Uncovered), // TXD
    (0x17e, 100, Access::Covered),  // LDG of 256 bits
    (0x17f, 100, Access::Covered),  // STG of 256 bits
    (0x180, 70, Access::Covered),   // LD
    (0x181, 70, Access::Covered),   // LDG
    (0x183, 70, Access::Covered),   // LDL; 0x182 is LDC: constants are no memory access here
    (0x184, 70, Access::Covered),   // LDS
    (0x185, 70, Access::Covered),   // ST
    (0x186, 70, Access::Covered),   // STG
    (0x187, 70, Access::Covered),   // STL
    (0x188, 70, Access::Covered),   // STS
    (0x18a, 70, Access::Covered),   // ATOM
    (0x18b, 70, Access::Covered),   // ATOM.CAS
    (0x18c, 70, Access::Covered),   // ATOMS
    (0x18d, 70, Access::Covered),   // ATOMS.CAS
    (0x18e, 70, Access::Covered),   // RED, REDG
    (0x199, 70, Access::Uncovered), // SULD
    (0x19d, 70, Access::Uncovered), // SUST
    (0x19f, 70, Access::Uncovered), // SURED
    (0x1a2, 90, Access::Covered),   // ATOM of floats
    (0x1a3, 90, Access::Covered),   // ATOMG of floats
    (0x1a6, 90, Access::Covered),   // REDG of floats
    (0x1a8, 70, Access::Covered),   // ATOMG
    (0x1a9, 70, Access::Covered),   // ATOMG.CAS
    (0x1ae, 80, Access::Covered),   // LDGSTS
    (0x1b4, 90, Access::Uncovered), // UTMALDG
    (0x1b5, 90, Access::Uncovered), // UTMASTG
    (0x1b6, 90, Access::Uncovered), // UTMAREDG
    (0x1b8, 90, Access::Uncovered), // UTMAPF
    (0x1ba, 90, Access::Uncovered), // UBLKCP
    (0x1bb, 90, Access::Uncovered), // UBLKRED
    (0x1bc, 90, Access::Uncovered), // UBLKPF
    (0x1bd, 90, Access::Uncovered), // STAS
];
