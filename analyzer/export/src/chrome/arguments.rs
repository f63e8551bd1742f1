//! Arguments of ops and collectives, by the names that PyTorch's profiler gives them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stallmap_console::row::IntegerCells;
use stallmap_console::rows;

rows! {
    /// An input of an op.
    pub(super) struct OpInputRow {
        op_id: u64,
        position: u32,
        dtype: Option<String>,
        sizes: IntegerCells,
        strides: IntegerCells,
        value: Option<String>,
    }

    /// The arguments of a collective.
    pub(super) struct CollectiveArgs {
        pub(super) kernel_id: u64,
        call_name: Option<String>,
        in_element_count: Option<u64>,
        out_element_count: Option<u64>,
        dtype: Option<String>,
        group_name: Option<String>,
        group_description: Option<String>,
        group_ranks: Option<String>,
        group_size: Option<u32>,
        sequence_number: Option<i64>,
    }
}

/// Element types: PyTorch's name, that of C++, and that of the library.
const TYPES: [(&str, &str, &str); 12] = [
    ("float32", "float", "Float"),
    ("float64", "double", "Double"),
    ("float16", "c10::Half", "Half"),
    ("bfloat16", "c10::BFloat16", "BFloat16"),
    ("int64", "long int", "Long"),
    ("int32", "int", "Int"),
    ("int16", "short int", "Short"),
    ("int8", "signed char", "Char"),
    ("uint8", "unsigned char", "Byte"),
    ("bool", "bool", "Bool"),
    ("complex64", "c10::complex<float>", "ComplexFloat"),
    ("complex128", "c10::complex<double>", "ComplexDouble"),
];

/// Inputs of an op that are written.
const MAX_INPUTS: u32 = 4096;
/// The type of lists of tensors.
const LIST: &str = "TensorList";

impl CollectiveArgs {
    /// The arguments that are known.
    pub(super) fn arguments(self) -> Map<String, Value> {
        let dtype = self.dtype.map(|dtype| {
            let known =
                TYPES.iter().find(|(name, ..)| *name == dtype).map(|(.., library)| (*library).to_owned());
            known.unwrap_or(dtype)
        });
        // TraceLens leaves out collectives that lack one of these. Only calls of all to all divide a message unevenly.
        let is_even = self.call_name.as_ref().is_some_and(|name| !name.contains("to_all"));
        let even = is_even.then_some("[]");
        let ranks = self.group_ranks.as_deref().or(even);
        let arguments = [
            ("Collective name", json!(self.call_name)),
            ("In msg nelems", json!(self.in_element_count)),
            ("Out msg nelems", json!(self.out_element_count)),
            ("Group size", json!(self.group_size)),
            ("dtype", json!(dtype)),
            ("Process Group Name", json!(self.group_name)),
            ("Process Group Description", json!(self.group_description)),
            ("Process Group Ranks", json!(ranks)),
            ("In split size", json!(even)),
            ("Out split size", json!(even)),
            ("Seq", json!(self.sequence_number)),
        ];
        let known = arguments.into_iter().filter(|(_, value)| !value.is_null());
        known.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Inputs by op: lists with an entry for each position.
pub(super) fn inputs(rows: Vec<OpInputRow>) -> super::ArgumentsById {
    let mut by_op: BTreeMap<u64, Vec<OpInputRow>> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.position < MAX_INPUTS) {
        by_op.entry(row.op_id).or_default().push(row);
    }
    by_op.into_iter().map(|(op, rows)| (op, listed(rows))).collect()
}

/// The lists of one op. An input without a row is empty in all of them.
fn listed(rows: Vec<OpInputRow>) -> Map<String, Value> {
    let count = rows.iter().map(|row| row.position as usize + 1).max().unwrap_or(0);
    let (mut sizes, mut strides) = (vec![json!([]); count], vec![json!([]); count]);
    let (mut types, mut values) = (vec![String::new(); count], vec![String::new(); count]);
    for row in rows {
        let place = row.position as usize;
        let name = type_of(&row);
        let (Some(sizes), Some(strides), Some(own)) =
            (sizes.get_mut(place), strides.get_mut(place), types.get_mut(place))
        else {
            continue;
        };
        if name == LIST {
            for (list, own) in [(sizes, row.sizes.0), (strides, row.strides.0)] {
                list.as_array_mut().iter_mut().for_each(|list| list.push(json!(own)));
            }
        } else {
            (*sizes, *strides) = (json!(row.sizes.0), json!(row.strides.0));
        }
        *own = name;
        if let Some(slot) = values.get_mut(place) {
            *slot = row.value.unwrap_or_default();
        }
    }
    let lists = [
        ("Input Dims", json!(sizes)),
        ("Input Strides", json!(strides)),
        ("Input type", json!(types)),
        ("Concrete Inputs", json!(values)),
    ];
    lists.into_iter().map(|(name, list)| (name.to_owned(), list)).collect()
}

/// The type of an input. A tensor without one is part of a list. Those of other values follow from their texts.
fn type_of(row: &OpInputRow) -> String {
    match (&row.dtype, &row.value) {
        (Some(dtype), _) => {
            let known =
                TYPES.iter().find(|(name, ..)| name == dtype).map(|(_, plain, _)| (*plain).to_owned());
            known.unwrap_or_else(|| {
                format!(
                    "c10::{}{}",
                    dtype.get(..1).unwrap_or_default().to_uppercase(),
                    dtype.get(1..).unwrap_or_default()
                )
            })
        }
        (None, None) => LIST.to_owned(),
        (None, Some(value)) if value.is_empty() => String::new(),
        (None, Some(value)) if value.starts_with('[') => "ScalarList".to_owned(),
        (None, Some(_)) => "Scalar".to_owned(),
    }
}
