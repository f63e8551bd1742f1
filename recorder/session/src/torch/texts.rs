//! Texts that Python sends once, later named by number.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The number that stands for no text.
pub const NONE: i64 = 0;

/// Texts by number and numbers by text. Texts live as long as the process: their number is bounded by the program's
/// distinct names of ops, arguments, modules and parameters.
#[derive(Default)]
struct NumberedTexts {
    numbers: HashMap<&'static str, i64>,
    texts: Vec<&'static str>,
}

static TEXTS: Mutex<Option<NumberedTexts>> = Mutex::new(None);

/// The number of a text, from 1.
pub fn number(text: &str) -> i64 {
    let mut guard = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = guard.get_or_insert_default();
    if let Some(&number) = texts.numbers.get(text) {
        return number;
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    texts.texts.push(text);
    let number = i64::try_from(texts.texts.len()).unwrap_or(NONE);
    texts.numbers.insert(text, number);
    number
}

/// The text of a number.
pub fn text(number: i64) -> Option<&'static str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    TEXTS.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.texts.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let number_of_mm = number("aten::mm.default");
        assert_eq!(number("aten::mm.default"), number_of_mm);
        assert_ne!(number("aten::mm.out"), number_of_mm);
        assert_eq!(text(number_of_mm), Some("aten::mm.default"));
    }

    #[test]
    fn unknown_numbers_are_no_text() {
        assert_eq!((text(NONE), text(-1), text(i64::MAX)), (None, None, None));
    }
}
