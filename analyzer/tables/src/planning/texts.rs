//! Texts that batches share.
//!
//! Batches of a join refer to all texts of its first input, and those of an aggregate to all texts of its groups.
//! DataFusion's sorts, repartitions and joins count these for each batch that they hold: some megabytes of names become
//! gigabytes, and the query fails for lack of memory that it does not take.

use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch, StringViewArray, StringViewBuilder};
use arrow::buffer::Buffer;
use arrow::error::ArrowError;

/// Shared texts that stay as they are.
const FEW_BYTES: usize = 256 << 10;

/// A batch with texts in memory of its own, where it refers to few of many.
pub fn owned(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let is_shared = |texts: &&StringViewArray| {
        let held = held_bytes(texts);
        held > FEW_BYTES && held / 2 > texts.total_buffer_bytes_used()
    };
    let columns = batch.columns();
    if !columns.iter().filter_map(|column| column.as_string_view_opt()).any(|texts| is_shared(&texts)) {
        return Ok(batch);
    }
    let own = columns.iter().map(|column| match column.as_string_view_opt().filter(is_shared) {
        Some(texts) => Arc::new(copied(texts)),
        None => Arc::clone(column),
    });
    RecordBatch::try_new(batch.schema(), own.collect())
}

/// Bytes of the memory that texts refer to.
pub fn held_bytes(texts: &StringViewArray) -> usize {
    texts.data_buffers().iter().map(Buffer::capacity).sum()
}

/// Equal texts are held once.
fn copied(texts: &StringViewArray) -> StringViewArray {
    let mut builder = StringViewBuilder::with_capacity(texts.len()).with_deduplicate_strings();
    builder.extend(texts.iter());
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_of(texts: StringViewArray) -> RecordBatch {
        RecordBatch::try_from_iter([("text", Arc::new(texts) as _)]).unwrap()
    }

    #[test]
    fn a_slice_of_many_texts_has_its_own() {
        let all = StringViewArray::from_iter_values(
            (0..100_000).map(|number| format!("a text of its own {number}")),
        );
        let slice = all.slice(10, 20);
        assert!(held_bytes(&all) > FEW_BYTES);
        let own = owned(batch_of(slice.clone())).unwrap();
        let own = own.column(0).as_string_view();
        assert_eq!(own, &slice);
        assert!(held_bytes(own) < held_bytes(&all) / 10, "{}", held_bytes(own));
        let same = owned(batch_of(all.clone())).unwrap();
        assert_eq!(
            same.column(0).as_string_view().data_buffers()[0].as_ptr(),
            all.data_buffers()[0].as_ptr()
        );
    }
}
