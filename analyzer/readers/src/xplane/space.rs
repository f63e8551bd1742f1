//! The planes of a space. Behind damage, reading goes on at the next plane with a known name.

use crate::formats::proto::{ProtoFields, ProtoReader, ProtoValue};

use super::SpaceDamage;

/// The begins of planes' names.
const NAMES: [&[u8]; 3] = [b"/host:", b"/device:", b"Task Environment"];
/// The key of a plane in a space, and of a name in a plane.
const PLANE_KEY: u8 = 0x0a;
const NAME_KEY: u8 = 0x12;
/// Most bytes between a plane's key and its name: a length, and a number.
const MAX_HEAD_BYTES: usize = 24;

/// Most planes of a space, with the messages next to them.
pub(super) const MAX_FIELDS: usize = 1 << 16;

/// A field of a space.
pub(super) type SpaceField<'a> = (u32, ProtoValue<'a>);

/// The fields of a space, in the order of the file.
pub(super) fn fields<'a>(bytes: &'a [u8], damage: &mut SpaceDamage) -> Vec<SpaceField<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if found.len() >= MAX_FIELDS {
            damage.add(format!("byte {at}: behind {MAX_FIELDS} planes and messages"));
            break;
        }
        let mut fields = ProtoReader::new(rest, at as u64).lenient();
        at = match fields.next() {
            Some(Ok((number, value))) => {
                let broken = match value {
                    ProtoValue::Message(plane) if number == 1 => break_of(plane),
                    _ => None,
                };
                found.push((number, value));
                if let Some(at) = fields.cut().filter(|_| broken.is_none()) {
                    damage.add(format!("byte {at}: it ends in a message"));
                }
                let end = end_of(&fields, bytes.len());
                broken.map_or(end, |broken| next_plane(bytes, broken.max(at + 1)).unwrap_or(end.max(broken)))
            }
            Some(Err(reason)) => {
                damage.add(reason);
                next_plane(bytes, at + 1).unwrap_or(bytes.len())
            }
            None => bytes.len(),
        };
    }
    found
}

/// The position behind the last field.
fn end_of(fields: &ProtoFields<'_>, length: usize) -> usize {
    usize::try_from(fields.position()).unwrap_or(length)
}

/// The position at which a plane's own fields break. Its reader counts the damage.
fn break_of(plane: ProtoReader<'_>) -> Option<usize> {
    let (mut fields, mut at) = (plane.into_iter(), plane.at);
    loop {
        match fields.next()? {
            Ok(_) => at = fields.position(),
            Err(_) => return usize::try_from(at).ok(),
        }
    }
}

/// The position of the next plane's key.
fn next_plane(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let is_name = |window: &[u8]| {
        window.first() == Some(&NAME_KEY)
            && window.get(2..).is_some_and(|name| NAMES.iter().any(|known| name.starts_with(known)))
    };
    let starts = (0..rest.len()).filter(|at| rest.get(*at) == Some(&NAME_KEY));
    let names = starts.filter(|at| rest.get(*at..).is_some_and(is_name)).map(|at| from + at);
    names.filter_map(|name| key_before(bytes, name)).find(|key| *key >= from)
}

/// The key of the plane whose name begins at a position.
fn key_before(bytes: &[u8], name: usize) -> Option<usize> {
    let first = name.saturating_sub(MAX_HEAD_BYTES);
    let keys = (first..name).rev().filter(|at| bytes.get(*at) == Some(&PLANE_KEY));
    keys.into_iter().find(|key| {
        let message = bytes.get(*key..).map(|rest| ProtoReader::new(rest, 0).lenient().next());
        let Some(Some(Ok((1, ProtoValue::Message(plane))))) = message else { return false };
        let begin = key + usize::try_from(plane.at).unwrap_or(usize::MAX / 2);
        let numbered =
            plane.into_iter().next().is_some_and(|field| matches!(field, Ok((1, ProtoValue::Number(_)))));
        begin == name || begin < name && numbered
    })
}
