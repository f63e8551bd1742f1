//! Functions of columns: one type for all whose result depends on their arguments alone.

use std::hash::{Hash, Hasher};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, DocumentationBuilder, ScalarFunctionArgs, ScalarUDFImpl,
    Signature, Volatility,
};

/// A function of columns.
#[derive(Debug)]
pub(super) struct ColumnFunction {
    pub(super) name: &'static str,
    pub(super) signature: Signature,
    pub(super) returns: DataType,
    pub(super) doc: Documentation,
    /// The result of columns of the signature's types.
    pub(super) compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

/// The signature of one list of types.
pub(super) fn exact<const N: usize>(types: [DataType; N]) -> Signature {
    Signature::exact(types.into(), Volatility::Immutable)
}

/// The type of lists.
pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Field::new_list_field(item, true).into())
}

/// The documentation of a function, by a description and its call.
pub(super) fn doc(description: impl Into<String>, syntax: impl Into<String>) -> DocumentationBuilder {
    Documentation::builder(DocSection::default(), description, syntax)
}

impl PartialEq for ColumnFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ColumnFunction {}

impl Hash for ColumnFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ColumnFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array((self.compute)(&columns)?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.doc)
    }
}
