//! Tests of damaged cubins: only they fail.

use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::loss::Loss;

use crate::finish::finished;

#[test]
fn a_damaged_cubin_is_a_loss_and_nothing_else_suffers() {
    let capture = finished(|partial| {
        let cubin = std::fs::read_dir(partial.join("cubins")).unwrap().next().unwrap().unwrap().path();
        std::fs::write(cubin, b"\x7fELF and so on").unwrap();
    });
    let losses = capture.reader.read_rows::<Loss>().unwrap();
    let loss = losses.iter().find(|loss| loss.reason == "cubin cannot be read").unwrap();
    assert!(loss.detail.as_ref().unwrap().ends_with("its cubin is not what its name says"));
    let module = capture.reader.read_rows::<Module>().unwrap().remove(0);
    assert_eq!((module.sm, module.file), (None, None));
    let kernel = capture.reader.read_rows::<Function>().unwrap().remove(0);
    assert_eq!((kernel.name.as_str(), kernel.memory_instruction_count), ("every_kind", None));
}
