//! `label(labels, key)`: the value of one label.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray as _, StringArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    let doc =
        "The value of a label of a capture, from the column `labels`. Null if the capture has no such label.";
    Documentation::builder(DocSection::default(), doc, "label(labels, key)")
        .with_sql_example("SELECT label(labels, 'model'), count(*) FROM launch GROUP BY 1")
        .build()
});

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct LabelOf {
    signature: Signature,
}

impl Default for LabelOf {
    fn default() -> Self {
        let texts = vec![DataType::Utf8, DataType::Utf8];
        Self { signature: Signature::exact(texts, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for LabelOf {
    fn name(&self) -> &'static str {
        "label"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [labels, keys] = arrays.as_slice() else {
            return datafusion::common::exec_err!("label() has two arguments");
        };
        let (labels, keys) = (labels.as_string::<i32>(), keys.as_string::<i32>());
        let values = labels.iter().zip(keys).map(|(labels, key)| value(labels?, key?));
        Ok(ColumnarValue::Array(Arc::new(values.collect::<StringArray>()) as ArrayRef))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}

/// The value of a key in a list of labels.
fn value<'a>(labels: &'a str, key: &str) -> Option<&'a str> {
    labels
        .split(", ")
        .find_map(|label| label.split_once('=').filter(|(own, _)| *own == key))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_by_its_key() {
        let labels = "branch=main, model=gpt2=xl";
        assert_eq!(value(labels, "model"), Some("gpt2=xl"));
        assert_eq!(value(labels, "branch"), Some("main"));
        assert_eq!(value(labels, "mod"), None);
        assert_eq!(value("", "model"), None);
    }
}
