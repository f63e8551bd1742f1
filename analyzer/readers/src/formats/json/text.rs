//! Texts of JSON, also as programs write them that do not escape: with quotes, backslashes and control characters.

use std::borrow::Cow;

use super::damage::JsonDamage;

/// The text of the bytes between quotes.
pub(super) fn text<'a>(raw: &'a [u8], damage: &mut JsonDamage, position: u64) -> Cow<'a, str> {
    if raw.iter().any(|byte| *byte < 0x20) {
        damage.add("control characters in texts", position);
    }
    // Owned where something was replaced.
    let text = String::from_utf8_lossy(raw);
    if matches!(text, Cow::Owned(_)) {
        damage.add("texts that are not UTF-8", position);
    }
    if !raw.contains(&b'\\') {
        return text;
    }
    Cow::Owned(unescaped(&text).unwrap_or_else(|| {
        // One wrong escape means that the program escapes nothing: `torch\nn\_x.py` has no line break.
        damage.add("backslashes in texts that are not escaped", position);
        text.replace("\\\\", "\\").replace("\\\"", "\"")
    }))
}

/// A text without escapes. None if it has one that JSON lacks.
fn unescaped(raw: &str) -> Option<String> {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut characters = escape.chars();
        text.push(match characters.next()? {
            quoted @ ('"' | '\\' | '/') => quoted,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (character, behind) = unicode(characters.as_str())?;
                characters = behind.chars();
                character
            }
            _ => return None,
        });
        rest = characters.as_str();
    }
    text.push_str(rest);
    Some(text)
}

/// The character of an escape behind its `u`, and the text behind it. Half a pair is the replacement character.
fn unicode(text: &str) -> Option<(char, &str)> {
    let (first, rest) = unit(text)?;
    let second = rest.strip_prefix("\\u").and_then(unit);
    let pair = second.and_then(|(second, behind)| {
        let character = char::decode_utf16([first, second]).next()?.ok()?;
        (character.len_utf16() == 2).then_some((character, behind))
    });
    let single = || (char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), rest);
    Some(pair.unwrap_or_else(single))
}

fn unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((u16::from_str_radix(digits, 16).ok().filter(|_| is_number)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_json_or_none() {
        let read = |raw: &str| {
            let mut damage = JsonDamage::default();
            (text(raw.as_bytes(), &mut damage, 7).into_owned(), damage.rows().count())
        };
        assert_eq!(read(r#"a\"\\\/\n\u00e9"#), ("a\"\\/\n\u{e9}".to_owned(), 0));
        assert_eq!(read(r"\ud83d\ude00 \ud83d"), ("\u{1f600} \u{fffd}".to_owned(), 0));
        assert_eq!(read(r"torch\nn\_init.py"), (r"torch\nn\_init.py".to_owned(), 1));
        assert_eq!(read(r"C:\users"), (r"C:\users".to_owned(), 1));
        assert_eq!(read("a\u{1}b"), ("a\u{1}b".to_owned(), 1));
    }
}
