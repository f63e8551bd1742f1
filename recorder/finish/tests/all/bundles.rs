//! Tests of bundles: they are complete, or they have a reason for the refusal.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use stallmap_finish::recover;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::segment::{FrameEncoder, SegmentReader, SegmentWriter};
use stallmap_schema::cell::Blob;
use stallmap_schema::hash;
use stallmap_schema::id::{Address, KernelId};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::replay::{Bundle, BundleContent, BundlePage, BundleSymbol, PAGE_BYTES};
use stallmap_schema::word::{BundleMethod, LossKind};
use stallmap_write::check::check;

use crate::finish::{finished_with, kernel_id};
use crate::recording;

const NOT_WHOLE: &str = "its memory is not whole on the disk";

fn content(number: u8) -> Vec<u8> {
    (0..PAGE_BYTES).map(|at| number.wrapping_mul(at.to_le_bytes()[0])).collect()
}

fn bundle(ordinal: u64, page_count: u64) -> Bundle {
    Bundle {
        kernel_id: KernelId(ordinal),
        method: Some(BundleMethod::Observed),
        page_count,
        written_page_count: 1,
        new_page_count: page_count,
        record_ns: 1,
        ..Bundle::default()
    }
}

fn page(ordinal: u64, number: u64, content_id: u64) -> BundlePage {
    BundlePage {
        kernel_id: KernelId(ordinal),
        address: Address((1 << 32) + number * 4096),
        content_id,
        hash_after: (number == 1).then_some(7),
        content_after_id: None,
        written_content_id: None,
    }
}

fn symbol(ordinal: u64, offset_bytes: u64, content_id: u64) -> BundleSymbol {
    let symbol = "table".to_owned();
    BundleSymbol {
        kernel_id: KernelId(ordinal),
        symbol,
        offset_bytes,
        size_bytes: 4096,
        content_id,
        hash_after: None,
    }
}

pub(crate) fn put_contents(segment: &mut SegmentWriter, first: u64, numbers: &[u8]) {
    let mut encoder = FrameEncoder::new(Path::new("rows.seg")).unwrap();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| content(*number)).collect();
    segment.append_frame(&encoder.pages(first, &bytes).unwrap()).unwrap();
}

/// A bundle of the first launch: one page.
pub(crate) fn record_first(segment: &mut SegmentWriter) {
    put_contents(segment, 1, &[1]);
    recording::put(segment, [page(0, 0, 1)]);
    recording::put(segment, [bundle(0, 1)]);
}

/// Bundles of launches 0 and 1, a refusal of launch 2, launch 3 with a missing content, and a launch that is not
/// recorded. Contents arrive as the threads that compress them are done. Content 5 belongs to no bundle.
pub(crate) fn record(segment: &mut SegmentWriter) {
    put_contents(segment, 3, &[3, 4, 5]);
    put_contents(segment, 1, &[1, 2]);
    recording::put(segment, [page(0, 1, 2), page(1, 0, 2)]);
    recording::put(segment, [page(0, 0, 1), page(1, 1, 4)]);
    recording::put(segment, [symbol(0, 4096, 3), symbol(0, 0, 1)]);
    recording::put(segment, [bundle(0, 2)]);
    recording::put(segment, [bundle(1, 2)]);
    recording::put(segment, [Bundle { refusal: Some("peer memory".into()), method: None, ..bundle(2, 0) }]);
    recording::put(segment, [page(3, 0, 1), page(3, 1, 99)]);
    recording::put(segment, [bundle(3, 2)]);
    recording::put(segment, [page(9, 0, 1)]);
    recording::put(segment, [bundle(9, 1)]);
    recording::put(segment, [page(8, 0, 1)]);
}

#[test]
fn bundles_keep_their_pages_in_order_and_each_content_once() {
    let capture = finished_with(record, |_| ());
    let bundles: Vec<_> = capture
        .rows::<Bundle>()
        .into_iter()
        .map(|row| (row.kernel_id, row.run_id.0, row.refusal, row.page_count))
        .collect();
    let refusal = |reason: &str| Some(reason.to_owned());
    assert_eq!(
        bundles,
        [
            (kernel_id(1, 0), 1, None, 2),
            (kernel_id(1, 1), 1, None, 2),
            (kernel_id(1, 2), 1, refusal("peer memory"), 0),
            (kernel_id(1, 3), 1, refusal(NOT_WHOLE), 0),
        ]
    );
    let pages: Vec<_> = capture
        .rows::<BundlePage>()
        .into_iter()
        .map(|row| (row.kernel_id, row.address.0 - (1 << 32), row.content_id, row.hash_after))
        .collect();
    assert_eq!(
        pages,
        [
            (kernel_id(1, 0), 0, 1, None),
            (kernel_id(1, 0), 4096, 2, Some(7)),
            (kernel_id(1, 1), 0, 2, None),
            (kernel_id(1, 1), 4096, 4, Some(7)),
        ]
    );
    let symbols = capture.rows::<BundleSymbol>();
    let symbols: Vec<_> = symbols.iter().map(|row| (row.offset_bytes, row.content_id)).collect();
    assert_eq!(symbols, [(0, 1), (4096, 3)]);
    let contents = capture.rows::<BundleContent>();
    let expected = [1, 2, 3, 4].map(|number: u8| {
        let bytes = content(number);
        BundleContent { content_id: number.into(), hash: hash::content_hash(&bytes), bytes: Blob(bytes) }
    });
    assert_eq!(contents, expected);
}

#[test]
fn what_is_no_bundle_is_counted() {
    let capture = finished_with(record, |_| ());
    let losses = capture.rows::<Loss>();
    let lost: Vec<_> = losses
        .iter()
        .filter(|loss| loss.kind == LossKind::Bundle)
        .map(|loss| (loss.reason.as_str(), loss.lost_count, loss.detail.as_deref()))
        .collect();
    assert_eq!(
        lost,
        [
            ("its launch was not recorded", 1, None),
            (NOT_WHOLE, 1, Some("2 pages were dropped")),
            ("only its pages were recorded", 1, None),
        ]
    );
    let bundles = &capture.summary.bundles;
    assert_eq!((bundles.selected_count, bundles.bundle_count), (4, 2));
    assert_eq!(bundles.content_bytes, 4 * 4096);
    let refusals: Vec<_> = bundles.refusals.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(refusals, [(NOT_WHOLE, 1), ("peer memory", 1)]);
}

#[test]
fn contents_are_streamed_over_many_frames() {
    let count = 600_u64;
    let many = |segment: &mut SegmentWriter| {
        for first in (0..count).step_by(40).collect::<Vec<_>>().into_iter().rev() {
            let numbers: Vec<u8> = (first..first + 40).map(|number| number.to_le_bytes()[0]).collect();
            put_contents(segment, first + 1, &numbers);
        }
        recording::put(segment, (0..count).rev().map(|number| page(0, number, number + 1)));
        recording::put(segment, [bundle(0, count)]);
    };
    let capture = finished_with(many, |_| ());
    assert_eq!(capture.rows::<BundlePage>().len() as u64, count);
    assert_eq!(capture.rows::<BundleContent>().len() as u64, count);
    assert_eq!(capture.summary.bundles.content_bytes, count * 4096);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_torn_segment_leaves_bundles_that_are_whole(cut in any::<Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let partial = recording::write_with(folder.path(), record);
        let segment = partial.join("run-accesses-10/rows.seg");
        // Everything from the first content on: what stands before it has a test of its own.
        let frames = SegmentReader::open(&segment).unwrap();
        let first = frames.frames().iter().map(|frame| frame.offset).nth(frames.frames().len() - 14).unwrap();
        let bytes = std::fs::read(&segment).unwrap();
        let length = usize::try_from(first).unwrap();
        let length = length + cut.index(bytes.len() - length);
        std::fs::write(&segment, &bytes[..length]).unwrap();

        let output = folder.path().join("recovered.stallmap");
        let summary = recover(&partial, &output).unwrap();
        let reader = CaptureReader::open(&output).unwrap();
        prop_assert_eq!(check(&reader), [], "{:#?}", summary.losses);
        let pages = reader.read_rows::<BundlePage>().unwrap();
        for bundle in reader.read_rows::<Bundle>().unwrap() {
            let own = pages.iter().filter(|page| page.kernel_id == bundle.kernel_id).count() as u64;
            prop_assert_eq!(own, bundle.page_count);
            prop_assert_eq!(bundle.refusal.is_none(), own > 0);
        }
        let used: BTreeSet<u64> = pages.iter().map(|page| page.content_id)
            .chain(reader.read_rows::<BundleSymbol>().unwrap().iter().map(|symbol| symbol.content_id)).collect();
        let contents: BTreeSet<u64> =
            reader.read_rows::<BundleContent>().unwrap().iter().map(|content| content.content_id).collect();
        prop_assert_eq!(used, contents);
    }
}
