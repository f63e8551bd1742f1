//! Numbers in hexadecimal: `WHERE pc = 0x4ec0`. As text they are those of `stallmap_tables::functions::hex_text`.

use std::borrow::Cow;

use crate::lexer::{SqlToken, TokenKind, tokens};

/// A statement with decimal numbers for those such as `0x1a2b`, which the planner takes for strings of bytes. Numbers
/// beyond 64 bits stay as they are.
pub(super) fn hex_numbers(sql: &str) -> Cow<'_, str> {
    let number = |token: &SqlToken<'_>| {
        let digits = token.text.strip_prefix("0x").filter(|_| token.kind == TokenKind::Literal)?;
        u64::from_str_radix(digits, 16).ok()
    };
    if !tokens(sql).any(|token| number(&token).is_some()) {
        return Cow::Borrowed(sql);
    }
    let text =
        |token: SqlToken<'_>| number(&token).map_or_else(|| token.text.to_owned(), |value| value.to_string());
    Cow::Owned(tokens(sql).map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_hexadecimal_are_numbers() {
        let same = ["SELECT '0x10', \"0x10\", a0x10 -- 0x10", "SELECT 0x1ffffffffffffffff, 0xz, x'10'"];
        for sql in same {
            assert_eq!(hex_numbers(sql), sql);
        }
        let sql = "SELECT 0x10+0xffffffffffffffff, pc FROM pc_sample WHERE pc IN (0x0,0X10)";
        let plain = "SELECT 16+18446744073709551615, pc FROM pc_sample WHERE pc IN (0,0X10)";
        assert_eq!(hex_numbers(sql), plain);
    }
}
