//! Folders and files in the headers of line programs, versions 2 to 4: replaced in place.

use super::elf::number;
use super::put;
use crate::redact::words::WordRedactor;

/// Replaces folders in every program. An unreadable program is an error, because its content is unknown.
pub(super) fn redact(part: &mut [u8], words: &mut WordRedactor) -> Result<(), ()> {
    let mut at = 0;
    while at < part.len() {
        let (is_wide, length) = match number::<4>(part, at).ok_or(())? {
            0xffff_ffff => (true, number::<8>(part, at + 4).ok_or(())?),
            length => (false, length),
        };
        let (begin, width) = if is_wide { (at + 12, 8) } else { (at + 4, 4) };
        let end = usize::try_from(length).ok().and_then(|length| begin.checked_add(length)).ok_or(())?;
        let program = part.get_mut(begin..end).ok_or(())?;
        redact_program(program, width, words)?;
        at = end;
    }
    Ok(())
}

/// One program, from its version on.
fn redact_program(program: &mut [u8], width: usize, words: &mut WordRedactor) -> Result<(), ()> {
    let version = number::<2>(program, 0).filter(|version| (2..=4).contains(version)).ok_or(())?;
    let fixed = 2 + width + if version >= 4 { 6 } else { 5 };
    let opcodes = usize::from(*program.get(fixed - 1).ok_or(())?);
    let mut at = fixed + opcodes.saturating_sub(1);
    while let Some(end) = text_end(program, at)? {
        let folder = String::from_utf8_lossy(&program[at..end]).into_owned();
        put(program, at..end, &words.folder_in_place(&folder));
        at = end + 1;
    }
    at += 1;
    while let Some(end) = text_end(program, at)? {
        let file = String::from_utf8_lossy(&program[at..end]).into_owned();
        put(program, at..end, &words.path_in_place(&file));
        at = end + 1;
        for _ in 0..3 {
            at = after_number(program, at)?;
        }
    }
    Ok(())
}

/// End of a text. `None` if an empty one ends the list.
fn text_end(program: &[u8], at: usize) -> Result<Option<usize>, ()> {
    let rest = program.get(at..).ok_or(())?;
    let length = rest.iter().position(|byte| *byte == 0).ok_or(())?;
    Ok((length > 0).then_some(at + length))
}

/// Offset after a number of variable length.
fn after_number(program: &[u8], at: usize) -> Result<usize, ()> {
    let rest = program.get(at..).ok_or(())?;
    let length = rest.iter().position(|byte| byte & 0x80 == 0).ok_or(())?;
    Ok(at + length + 1)
}
