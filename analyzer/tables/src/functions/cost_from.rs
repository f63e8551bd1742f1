//! `cost_from()`: the samples that the session takes for costs.

use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::LazyLock;

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    let doc = "The samples that count as cost, as --cost-from chose them: auto, program or replays.";
    Documentation::builder(DocSection::default(), doc, "cost_from()")
        .with_sql_example("SELECT cost_from(), kernel_id, run_id FROM cost_run")
        .build()
});

/// The samples that count as the cost of a launch, if both the program and replays have some. See the view `cost_run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CostFrom {
    /// Samples of replays if the program has few, else samples of the program.
    #[default]
    Auto,
    /// Samples of the program alone.
    Program,
    /// Samples of replays. Launches without any take those of the program.
    Replays,
}

impl CostFrom {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Program, Self::Replays];

    /// The word of the option, and of the function.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Program => "program",
            Self::Replays => "replays",
        }
    }

    /// The function for a session with this choice.
    pub fn function(self) -> ScalarUDF {
        ScalarUDF::from(CostFromFunction {
            signature: Signature::nullary(Volatility::Immutable),
            choice: self,
        })
    }
}

impl Display for CostFrom {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for CostFrom {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.into_iter().find(|choice| choice.word() == text);
        known.ok_or_else(|| format!("use {}", Self::ALL.map(Self::word).join(", ")))
    }
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CostFromFunction {
    signature: Signature,
    choice: CostFrom,
}

impl ScalarUDFImpl for CostFromFunction {
    fn name(&self) -> &'static str {
        "cost_from"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::from(self.choice.word())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_again() {
        for choice in CostFrom::ALL {
            assert_eq!(choice.word().parse(), Ok(choice));
        }
        assert_eq!("both".parse::<CostFrom>(), Err("use auto, program, replays".to_owned()));
    }
}
