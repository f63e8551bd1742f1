//! Untrusted captures: whatever rows they hold, the values read from them are valid.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use proptest::prelude::*;
use stallmap_replay::bundle::{self, CaptureBundles};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::cell::Blob;
use stallmap_schema::id::{Address, FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::{Launch, LaunchParameter};
use stallmap_schema::tables::replay::{Bundle, BundleContent, BundlePage, BundleSymbol, PAGE_BYTES};
use stallmap_write::{CaptureForm, CaptureWriter};

/// Numbers with which sums go wrong, and ordinary ones.
fn number() -> impl Strategy<Value = u64> {
    let extreme = [0, 1, PAGE_BYTES as u64, 1 << 47, 1 << 57, u64::MAX - 4095, u64::MAX];
    prop_oneof![
        0..4_u64,
        (0..1_u64 << 20).prop_map(|page| page << 12),
        prop::sample::select(extreme.to_vec())
    ]
}

fn launch() -> Launch {
    Launch {
        kernel_id: KernelId(1),
        run_id: RunId(1),
        function_id: FunctionId(1),
        grid_y: u32::MAX,
        grid_z: 1,
        block_x: 1,
        block_y: 1,
        block_z: 1,
        dynamic_shared_bytes: Some(u32::MAX),
        device_id: -1,
        ..Launch::default()
    }
}

fn bundle_row(attributes: Vec<u8>) -> Bundle {
    Bundle {
        kernel_id: KernelId(1),
        run_id: RunId(1),
        refusal: None,
        method: None,
        page_count: u64::MAX,
        written_page_count: 7,
        new_page_count: 0,
        is_cooperative: true,
        attributes: Blob(attributes),
        max_dynamic_shared_bytes: Some(i32::MIN),
        shared_carveout: Some(i32::MAX),
        record_ns: i64::MIN,
    }
}

/// A capture whose one launch has this memory.
fn write(
    path: &Path,
    pages: &[(u64, u64)],
    parts: &[(u64, u32)],
    contents: &[usize],
    parameter_bytes: usize,
) {
    let mut writer = CaptureWriter::create(path, CaptureForm::File).unwrap();
    let module = Module {
        module_id: ModuleId(1),
        content_hash: "../..".into(),
        file: Some("cubins/x".into()),
        ..Module::default()
    };
    let function = Function {
        function_id: FunctionId(1),
        module_id: ModuleId(1),
        name: "k\0".into(),
        is_kernel: true,
        ..Function::default()
    };
    writer.append_rows([module]).unwrap();
    writer.append_rows([function]).unwrap();
    writer.append_rows([launch()]).unwrap();
    let bytes = Blob(vec![255; parameter_bytes]);
    let parameter = LaunchParameter { kernel_id: KernelId(1), bytes, offsets: vec![], sizes: vec![] };
    writer.append_rows([parameter]).unwrap();
    writer.append_rows([bundle_row(vec![4; parameter_bytes % 200])]).unwrap();
    let page = |&(address, content_id): &(u64, u64)| BundlePage {
        kernel_id: KernelId(1),
        address: Address(address),
        content_id,
        hash_after: Some(content_id),
        content_after_id: None,
        written_content_id: None,
    };
    writer.append_rows(pages.iter().map(page)).unwrap();
    let part = |&(offset_bytes, size_bytes): &(u64, u32)| BundleSymbol {
        kernel_id: KernelId(1),
        symbol: "s".into(),
        offset_bytes,
        size_bytes,
        content_id: offset_bytes,
        hash_after: None,
    };
    writer.append_rows(parts.iter().map(part)).unwrap();
    let content = |(content_id, &length): (u64, &usize)| BundleContent {
        content_id,
        hash: 0,
        bytes: Blob(vec![1; length]),
    };
    writer.append_rows((0..).zip(contents).map(content)).unwrap();
    writer.finish().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_bundle_is_sound_or_refused(
        pages in prop::collection::vec((number(), number()), 0..6),
        parts in prop::collection::vec((number(), prop_oneof![0..5000_u32, Just(u32::MAX)]), 0..3),
        contents in prop::collection::vec(prop_oneof![Just(PAGE_BYTES), 0..9000_usize], 0..4),
        parameter_bytes in prop_oneof![0..300_usize, Just(1 << 20)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.stallmap");
        write(&path, &pages, &parts, &contents, parameter_bytes);
        let capture = CaptureReader::open(&path).unwrap();
        // A number that no computation has to expect is refused where it is read.
        let Ok(mut bundles) = CaptureBundles::read(&capture) else { return Ok(()) };
        if bundles.read_memory(&capture).is_err() {
            return Ok(());
        }
        prop_assert_eq!(bundles.bundles.len() + bundles.refusals.len(), 1);
        let is_sound = pages.iter().all(|(address, _)| address % 4096 == 0 && *address < 1 << 57)
            && parts.iter().all(|(_, bytes)| *bytes <= 4096)
            && parameter_bytes <= 64 << 10;
        prop_assert_eq!(bundles.bundles.len() == 1, is_sound, "{:?}", bundles.refusals);
        for bundle in bundles.bundles.values() {
            prop_assert!(bundle.pages.windows(2).all(|two| two[0].address < two[1].address));
            let found = bundle::contents(&capture, [bundle]).unwrap();
            prop_assert!(found.values().all(|bytes| bytes.len() == PAGE_BYTES));
            let whole = |id: u64| usize::try_from(id).is_ok_and(|id| contents.get(id) == Some(&PAGE_BYTES));
            let mut ids = bundle.pages.iter().map(|page| page.content_id).chain(parts.iter().map(|part| part.0));
            prop_assert_eq!(bundle.check_whole(&found).is_ok(), ids.all(whole));
        }
    }
}

#[test]
fn a_capture_of_an_earlier_release_has_no_bundles() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stallmap");
    let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
    writer.append_rows([launch()]).unwrap();
    writer.finish().unwrap();
    let bundles = CaptureBundles::read(&CaptureReader::open(&path).unwrap()).unwrap();
    assert_eq!((bundles.bundles.len(), bundles.refusals.len()), (0, 0));
}
