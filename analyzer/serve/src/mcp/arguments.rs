//! Arguments of a call, checked by name and type.

use serde_json::{Map, Value};
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::names::nearest;

/// The arguments of a call.
pub(crate) struct CallParameters<'a>(Option<&'a Map<String, Value>>);

impl<'a> CallParameters<'a> {
    /// The arguments of a message.
    pub(crate) fn from_value(value: Option<&'a Value>) -> Self {
        Self(value.and_then(Value::as_object))
    }

    /// Refuses names that a tool does not have.
    pub(crate) fn check(&self, known: &[&str]) -> Outcome<()> {
        let given = self.0.into_iter().flat_map(Map::keys);
        let Some(wrong) = given.into_iter().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let hint = nearest(wrong, known.iter().copied()).map_or_else(
            || format!("arguments: {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Err(CommandFailure::message(USAGE, format!("no argument `{wrong}`")).hint(hint))
    }

    /// A text. An absent one, a null and an empty one are none.
    pub(crate) fn text(&self, name: &str) -> Outcome<Option<&'a str>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(CommandFailure::message(USAGE, format!("`{name}` is not a text"))),
        }
    }

    /// A text that must be there.
    pub(crate) fn needed(&self, name: &str) -> Outcome<&'a str> {
        self.text(name)?
            .ok_or_else(|| CommandFailure::message(USAGE, format!("the argument `{name}` is missing")))
    }

    /// A number of rows from 1 to a limit.
    pub(crate) fn count(&self, name: &str, default: usize, most: usize) -> Outcome<usize> {
        let Some(value) = self.value(name) else { return Ok(default) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        number.filter(|number| (1..=most).contains(number)).ok_or_else(|| {
            CommandFailure::message(USAGE, format!("`{name}` is not a number from 1 to {most}"))
        })
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.0.and_then(|given| given.get(name)).filter(|value| !value.is_null())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_have_names_and_types() {
        let given = json!({ "kernel": "softmax", "top": 3, "line": null, "query": 1 });
        let arguments = CallParameters::from_value(Some(&given));
        assert_eq!(arguments.text("kernel").unwrap(), Some("softmax"));
        assert_eq!(arguments.text("line").unwrap(), None);
        assert_eq!(arguments.count("top", 10, 200).unwrap(), 3);
        assert!(arguments.count("top", 10, 2).is_err());
        assert!(arguments.text("query").is_err());
        assert!(arguments.needed("line").is_err());
        assert!(arguments.check(&["kernel", "top", "line", "query"]).is_ok());
        let failure = arguments.check(&["kernels", "top", "line", "query"]).unwrap_err().to_string();
        assert!(failure.contains("did you mean `kernels`"), "{failure}");
    }
}
