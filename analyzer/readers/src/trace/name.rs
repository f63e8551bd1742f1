//! Names of kernels and ops without the differences between tools.

use stallmap_sass::demangle;

/// Casts that some demanglers write before constants.
const CASTS: [&str; 6] =
    ["(int)", "(bool)", "(unsigned int)", "(long)", "(unsigned long)", "(unsigned char)"];

/// A kernel's name, demangled: without spaces, the type of its result, casts and suffixes of constants.
pub fn kernel(name: &str) -> String {
    let text = CASTS.iter().fold(demangle(name), |text, cast| without_cast(&text, cast));
    let text = text.strip_prefix("void ").unwrap_or(&text);
    let mut found = String::with_capacity(text.len());
    for token in tokens(text) {
        found.push_str(match token {
            "true" => "1",
            "false" => "0",
            _ if token.starts_with(|first: char| first.is_ascii_digit()) => {
                token.trim_end_matches(['u', 'l', 'U', 'L'])
            }
            _ => token,
        });
    }
    found.retain(|letter| !letter.is_whitespace());
    found
}

/// A text without a cast in front of numbers. A list of parameters looks alike, and has none behind it.
fn without_cast(text: &str, cast: &str) -> String {
    let mut parts = text.split(cast);
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if !part.starts_with(|next: char| next.is_ascii_digit() || next == '-') {
            found.push_str(cast);
        }
        found.push_str(part);
    }
    found
}

/// Words, and the text between them.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = is_word(rest.chars().next()?);
        let end = rest.find(|letter| is_word(letter) != first).unwrap_or(rest.len());
        let (token, left) = rest.split_at_checked(end)?;
        rest = left;
        Some(token)
    })
}

/// An op's name without its overload.
pub fn op(name: &str) -> &str {
    match name.split_once("::") {
        Some((space, rest)) => {
            let length = rest.find('.').map_or(name.len(), |dot| space.len() + 2 + dot);
            name.get(..length).unwrap_or(name)
        }
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_agree_about_names() {
        let expected = "a::k<4,float,1>(int,float*)";
        for name in [
            "void a::k<4, float, true>(int, float*)",
            "void a::k<(int)4, float, (bool)1>(int, float *)",
            "a::k<4u, float, true>(int, float*)",
        ] {
            assert_eq!(kernel(name), expected, "{name}");
        }
        assert_eq!(kernel("_Z1kPi"), "k(int*)");
        assert_ne!(kernel("k(int)"), kernel("k()"));
        assert_eq!(kernel("void_kernel"), "void_kernel");
    }

    #[test]
    fn overloads_go() {
        assert_eq!(
            (op("aten::addmm.default"), op("aten::addmm"), op("my.region")),
            ("aten::addmm", "aten::addmm", "my.region")
        );
    }
}
