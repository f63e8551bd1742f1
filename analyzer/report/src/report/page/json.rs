//! Data for the page's script: JSON that cannot end its enclosing element, and its numbers.

use serde_json::Value;

use stallmap_console::output::html::is_hidden;

/// JSON that parses to the same data, and contains no markup.
pub(super) fn embedded(data: &Value) -> String {
    let json = data.to_string();
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            // These characters begin or end elements, comments and references. In JSON they occur only in strings.
            '<' | '>' | '&' => text.extend([format!("\\u{:04x}", u32::from(char))]),
            // Hidden ones are below U+FFFF.
            char if is_hidden(char) => text.extend([format!("\\u{:04x}", u32::from(char))]),
            char => text.push(char),
        }
    }
    text
}

/// A number with no more digits than displayed.
pub(super) fn short(value: f64) -> Value {
    let number = ((value * 1e4).round() / 1e4).to_string().parse().ok();
    number.map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_ends_the_element() {
        let text = embedded(&json!({ "</script><!--": ["<script>", "a&amp;b", "\u{2028}\u{202e}"] }));
        assert_eq!(
            text,
            r#"{"\u003c/script\u003e\u003c!--":["\u003cscript\u003e","a\u0026amp;b","\u2028\u202e"]}"#
        );
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(text in any::<String>()) {
            let written = embedded(&json!([text]));
            let is_clean = !written.contains(|char| "<>&".contains(char) || is_hidden(char));
            prop_assert!(is_clean, "{}", written);
            prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!([text]));
        }
    }
}
