//! The parts of a demangled C++ name: no grammar, only brackets.

/// Anonymous namespaces, as demanglers spell them.
const ANONYMOUS: [&str; 2] = ["(anonymous namespace)::", "<unnamed>::"];

/// The name without anonymous namespaces, whose brackets hold no parameters.
pub(super) fn without_anonymous(name: &str) -> String {
    ANONYMOUS.iter().fold(name.to_owned(), |name, anonymous| name.replace(anonymous, ""))
}

/// The bytes of a text outside of all brackets, and the outermost brackets, each with its position. None if brackets do
/// not match.
///
/// In parentheses, `<` and `>` may compare: one without a partner there is not a bracket.
fn outside(text: &str) -> Option<Vec<(usize, u8)>> {
    let (mut open, mut found, mut before) = (Vec::new(), Vec::new(), b' ');
    for (at, byte) in text.bytes().enumerate() {
        // Neither is an arrow.
        let is_compared = byte == b'>' && (before == b'-' || open.last() == Some(&b'('));
        let is_opening = matches!(byte, b'(' | b'<' | b'{' | b'[');
        let opening = opening(byte).filter(|_| !is_compared);
        while byte == b')' && open.len() > 1 && open.last() == Some(&b'<') {
            open.pop();
        }
        if opening.is_some() && open.pop() != opening {
            return None;
        }
        if open.is_empty() {
            found.push((at, byte));
        }
        if is_opening {
            open.push(byte);
        }
        before = byte;
    }
    open.is_empty().then_some(found)
}

/// The bracket that a closing one belongs to.
const fn opening(byte: u8) -> Option<u8> {
    match byte {
        b')' => Some(b'('),
        b'>' => Some(b'<'),
        b'}' => Some(b'{'),
        b']' => Some(b'['),
        _ => None,
    }
}

/// The name without its parameters and its return type. None if it has no C++ syntax, or brackets that do not match.
pub(super) fn without_signature(name: &str) -> Option<&str> {
    let positions = outside(name)?;
    let end = positions.iter().rev().find(|(_, byte)| *byte == b'(').map_or(name.len(), |(at, _)| *at);
    let start =
        positions.iter().rev().find(|(at, byte)| *at < end && *byte == b' ').map_or(0, |(at, _)| at + 1);
    name.get(start..end).filter(|rest| !rest.is_empty())
}

/// The parts of a qualified name, between `::` outside of brackets.
pub(super) fn path(name: &str) -> Vec<&str> {
    let Some(positions) = outside(name) else { return vec![name] };
    let (mut parts, mut start) = (Vec::new(), 0);
    for pair in positions.windows(2) {
        if let [(at, b':'), (next, b':')] = *pair
            && next == at + 1
            && at >= start
        {
            parts.extend(name.get(start..at));
            start = next + 1;
        }
    }
    parts.extend(name.get(start..));
    parts
}

/// The identifier before the first bracket of a part.
pub(super) fn identifier(part: &str) -> &str {
    part.split(['<', '(', '{', '[']).next().unwrap_or_default().trim()
}

/// The template arguments of a part. Empty without any.
pub(super) fn arguments(part: &str) -> Vec<&str> {
    let Some(positions) = outside(part) else { return Vec::new() };
    let at = |wanted: u8| positions.iter().find(|(_, byte)| *byte == wanted).map(|(at, _)| *at);
    let (Some(start), Some(end)) = (at(b'<'), at(b'>')) else { return Vec::new() };
    let Some(list) = part.get(start + 1..end) else { return Vec::new() };
    let commas = outside(list).unwrap_or_default().into_iter().filter(|(_, byte)| *byte == b',');
    let (mut items, mut start) = (Vec::new(), 0);
    for (at, _) in commas {
        items.extend(list.get(start..at));
        start = at + 1;
    }
    items.extend(list.get(start..));
    items.into_iter().map(str::trim).collect()
}
