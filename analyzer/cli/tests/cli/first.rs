//! `stallmap diff --first`: real runs that differ, and one run with other memory in its bundles.

use std::fs;
use std::path::Path;

use arrow::array::RecordBatch;
use serde_json::Value;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{Address, KernelId};
use stallmap_schema::table::TableDef;
use stallmap_schema::tables::launch::LaunchParameter;
use stallmap_schema::tables::replay::{BundleContent, BundlePage};
use stallmap_schema::tables::tensor::Tensor;
use stallmap_write::CaptureForm;
use stallmap_write::rewrite::{CaptureRewrite, TableFate, change_rows, rewrite};

use crate::command::CommandFolder;

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
const PAGE: u64 = 4096;

/// A folder with bundled captures.
fn place(names: &[&str]) -> CommandFolder {
    let place = CommandFolder::new();
    for name in names {
        let to = place.path(Path::new(name).file_name().unwrap().to_str().unwrap());
        fs::copy(Path::new(TESTDATA).join(name), to).unwrap();
    }
    place
}

macro_rules! snapshot {
    ($name:ident, $first:literal, $second:literal) => {
        #[test]
        fn $name() {
            let name = |path: &'static str| path.rsplit('/').next().unwrap();
            place(&[$first, $second])
                .run(&["diff", name($first), name($second), "--first"])
                .check(stringify!($name));
        }
    };
}

snapshot!(first_difference_of_none, "inference_views.stallmap", "inference_views_again.stallmap");
snapshot!(first_difference_of_a_kernel, "inference_views.stallmap", "inference_views_contiguous.stallmap");
snapshot!(first_difference_of_a_shape, "graph_bundles.stallmap", "graph_replay.stallmap");
snapshot!(first_difference_of_arguments, "sanitize/torch.stallmap", "sanitize/torch_right.stallmap");

/// A capture whose changed tables have other rows.
struct OtherRows {
    page: fn(&mut BundlePage, u64),
    parameter: fn(&mut LaunchParameter),
    content: u64,
}

impl CaptureRewrite for OtherRows {
    fn fate(&self, table: &str) -> TableFate {
        if ["bundle_page", "launch_parameter"].contains(&table) {
            TableFate::Changed
        } else {
            TableFate::Copied
        }
    }

    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        match table.name {
            "bundle_page" => change_rows(batch, |row: &mut BundlePage| (self.page)(row, self.content)),
            _ => change_rows(batch, self.parameter),
        }
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The differences of `training_parts` and itself with other rows.
fn differences(change: &mut OtherRows) -> Vec<Value> {
    let place = place(&["training_parts.stallmap"]);
    let reader = CaptureReader::open(&place.path("training_parts.stallmap")).unwrap();
    rewrite(&reader, &place.path("other.stallmap"), CaptureForm::File, change).unwrap();
    let ran = place.run(&["diff", "training_parts.stallmap", "other.stallmap", "--first", "--json"]);
    let found: Value = serde_json::from_str(&ran.expect_ok().stdout).unwrap();
    found["differences"].as_array().unwrap().clone()
}

/// The tensor that launch 4 of `training_parts`, a ReLU, reads, and its page that changes.
const READ_TENSOR: u64 = 20;

fn changed_page(tensor: &Tensor) -> u64 {
    tensor.address.0.div_ceil(PAGE) * PAGE + PAGE
}

#[test]
fn a_value_that_a_kernel_reads_is_found_at_its_element() {
    let reader = CaptureReader::open(&Path::new(TESTDATA).join("training_parts.stallmap")).unwrap();
    let tensors: Vec<Tensor> = reader.read_rows().unwrap();
    let tensor = tensors.into_iter().find(|tensor| tensor.tensor_id.0 == READ_TENSOR).unwrap();
    assert!(tensor.is_contiguous && tensor.dtype == "float32");
    let pages: Vec<BundlePage> = reader.read_rows().unwrap();
    let contents: Vec<BundleContent> = reader.read_rows().unwrap();
    let content = |address: u64| {
        let page =
            pages.iter().find(|page| page.kernel_id == KernelId(4) && page.address == Address(address));
        contents.iter().find(|content| content.content_id == page.unwrap().content_id).unwrap()
    };
    // In the other run the page has the content of the page behind it.
    let page = changed_page(&tensor);
    let (ours, others) = (content(page), content(page + PAGE));
    let at = (0..4096).find(|at| ours.bytes.0[*at] != others.bytes.0[*at]).unwrap() / 4 * 4;
    let value = |content: &BundleContent| f32::from_le_bytes(content.bytes.0[at..at + 4].try_into().unwrap());
    let mut rest = i64::try_from((page - tensor.address.0) / 4 + at as u64 / 4).unwrap();
    let mut index = Vec::new();
    for size in tensor.sizes.iter().rev() {
        index.insert(0, rest % size);
        rest /= size;
    }
    let expected = format!("element {index:?} is {}, {} in the other", value(ours), value(others));

    let mut change = OtherRows { page: |_, _| {}, parameter: |_| {}, content: others.content_id };
    assert_eq!(differences(&mut change), [] as [Value; 0]);
    change.page = |row, content| {
        if row.kernel_id == KernelId(4) && row.address == Address(PAGE_OF_TENSOR) {
            row.content_id = content;
        }
    };
    assert_eq!(page, PAGE_OF_TENSOR);
    let found = differences(&mut change);
    let facts =
        |found: &Value| (found["aspect"].clone(), found["launch"].clone(), found["difference"].clone());
    assert_eq!(facts(&found[0]), ("memory before".into(), 4.into(), expected.into()), "{found:?}");
    assert!(found[0]["memory"].as_str().unwrap().starts_with("cudnn_batch_norm() at :"), "{found:?}");

    // A result that differs earlier comes first.
    change.page = |row, content| match row.kernel_id {
        KernelId(2) => row.hash_after = row.hash_after.map(|hash| hash ^ 1),
        KernelId(4) if row.address == Address(PAGE_OF_TENSOR) => row.content_id = content,
        _ => {}
    };
    let found = differences(&mut change);
    assert_eq!((found[0]["aspect"].as_str(), found[0]["launch"].as_u64()), (Some("memory after"), Some(2)));
    assert_eq!((found[1]["aspect"].as_str(), found[1]["launch"].as_u64()), (Some("memory before"), Some(4)));
}

/// The page, as the capture has it.
const PAGE_OF_TENSOR: u64 = 140_092_861_784_064 / PAGE * PAGE;

#[test]
fn a_scalar_argument_that_differs_is_found_and_addresses_are_not() {
    let mut change = OtherRows {
        page: |_, _| {},
        // The first argument of launch 2 is its number of elements.
        parameter: |row| {
            if row.kernel_id == KernelId(2) {
                row.bytes.0[0] = 9;
            }
        },
        content: 0,
    };
    let found = differences(&mut change);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0]["aspect"].as_str(), found[0]["launch"].as_u64()), (Some("arguments"), Some(2)));
    assert_eq!(found[0]["difference"], "argument bytes from 0: 1 (0x1), 9 (0x9) in the other");
}

#[test]
fn two_captures_are_compared_at_a_time() {
    let place = place(&["inference_views.stallmap"]);
    let name = "inference_views.stallmap";
    place.run(&["diff", name, name, name, "--first"]).expect_error(2);
    place.run(&["diff", name, name, "--first", "--format", "sarif"]).expect_error(2);
    place.run(&["diff", name, name, "--first", "--all"]).expect_error(2);
}
