//! Attributes of `.nv.info` sections: the compiler's information for the driver.

use std::collections::BTreeMap;

use super::CubinParameter;

/// In a kernel's section: start of its parameters in constant bank 0, and their size.
pub(super) const PARAM_CBANK: u8 = 0x0a;
/// In a kernel's section: one parameter.
pub(super) const KPARAM_INFO: u8 = 0x17;
/// In the file's section: a function's registers.
pub(super) const REGCOUNT: u8 = 0x2f;
/// In a kernel's section: targets of its indirect branches.
pub(super) const INDIRECT_BRANCH_TARGETS: u8 = 0x34;

/// The attributes of a section: (attribute, value). What follows a record of an unknown format cannot be found.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    /// The format whose value has a size of its own. Every other format has two bytes, some of them unused.
    const SIZED: u8 = 4;
    std::iter::from_fn(move || {
        let ([format, attribute, low, high], behind) = rest.split_first_chunk()?;
        let value = match *format {
            1..SIZED => rest.get(2..4)?,
            SIZED => behind.get(..usize::from(u16::from_le_bytes([*low, *high])))?,
            _ => return None,
        };
        rest = if *format == SIZED { behind.get(value.len()..)? } else { behind };
        Some((*attribute, value))
    })
}

/// Numbers of 32 bits.
pub(super) fn words(value: &[u8]) -> impl Iterator<Item = u32> {
    value.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

/// A parameter: index, ordinal and offset, bits. The highest fourteen of the bits are its size.
pub(super) fn parameter(value: &[u8]) -> Option<CubinParameter> {
    let mut words = words(value).skip(1);
    let (packed, bits) = (words.next()?, words.next()?);
    Some(CubinParameter { ordinal: packed & 0xffff, offset: packed >> 16, bytes: bits >> 18 })
}

/// Start of the parameters: the lower half of the second number.
pub(super) fn parameters_offset(value: &[u8]) -> Option<u32> {
    words(value).nth(1).map(|packed| packed & 0xffff)
}

/// Indirect branches, one after the other: offset of the branch, zero, number of targets, targets.
pub(super) fn branch_targets(value: &[u8], targets: &mut BTreeMap<u32, Vec<u32>>) {
    let mut words = words(value);
    while let (Some(branch), Some(_), Some(count)) = (words.next(), words.next(), words.next()) {
        let of_branch = targets.entry(branch).or_default();
        of_branch.extend(words.by_ref().take(count as usize));
        of_branch.sort_unstable();
        of_branch.dedup();
    }
}
