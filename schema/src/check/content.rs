//! Hashes of page contents. Read batch by batch: contents are most of a capture.

use crate::capture::reader::CaptureReader;
use crate::check::{CaptureRule, ViolationList};
use crate::hash;
use crate::table::TableRow;
use crate::tables::replay::{BundleContent, PAGE_BYTES};

pub(super) fn check(reader: &CaptureReader, found: &mut ViolationList) {
    // A table that cannot be read has been reported with its schema.
    let batches = reader.read_table(BundleContent::TABLE.name).into_iter().flatten();
    for batch in batches.map_while(Result::ok) {
        let rows = (0..batch.num_rows()).filter_map(|row| BundleContent::read(&batch, row).ok());
        for content in rows {
            check_content(&content, found);
        }
    }
}

fn check_content(content: &BundleContent, found: &mut ViolationList) {
    let BundleContent { content_id, bytes, .. } = content;
    if bytes.0.len() != PAGE_BYTES {
        found.add(CaptureRule::Content, || {
            format!("content {content_id} has {} bytes, not {PAGE_BYTES}", bytes.0.len())
        });
    }
    let is = hash::content_hash(&bytes.0);
    if is != content.hash {
        found.add(CaptureRule::Content, || {
            format!("content {content_id} has the hash {is:#018x}, but its row states {:#018x}", content.hash)
        });
    }
}
