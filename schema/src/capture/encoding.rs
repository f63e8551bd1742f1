//! How each table's columns are encoded in Parquet.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::table::{Row, TableDef};
use crate::tables::memory::MemoryAccess;

/// Rows of a row group: small enough that one launch is read from a large capture in milliseconds.
pub const ROW_GROUP_ROWS: usize = 128 << 10;
const PAGE_ROWS: usize = 16 << 10;

/// Properties of a table's file; `None` for a table that this release does not know.
pub fn properties(table: Option<&TableDef>) -> WriterProperties {
    let zstd = ZstdLevel::try_new(3).unwrap_or_default();
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(zstd))
        .set_created_by(format!("stallmap {}", env!("CARGO_PKG_VERSION")))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Page);
    let Some(table) = table else { return builder.build() };
    let builder = builder.set_sorting_columns(sorting(table));
    if table.name == MemoryAccess::TABLE.name { accesses(builder).build() } else { builder.build() }
}

fn sorting(table: &TableDef) -> Option<Vec<SortingColumn>> {
    let position = |name: &str| table.columns.iter().position(|column| column.name == name);
    let column = |name: &&str| {
        let column_idx = i32::try_from(position(name)?).ok()?;
        Some(SortingColumn { column_idx, descending: false, nulls_first: true })
    };
    // Every column is one leaf, so its position is its leaf's.
    table.sort.iter().map(column).collect::<Option<Vec<_>>>().filter(|columns| !columns.is_empty())
}

/// Accesses are nearly all of a capture's bytes, so their columns' encodings were chosen by measuring. Bytes per lane
/// access by encoding (zstd 3) on kernels of 32-lane warps: unit stride, 4-byte gather from 64 MiB, tiles of a GEMM:
///
/// | column | dictionary | delta | byte stream split | plain |
/// |---|---|---|---|---|
/// | sequence | .127 .119 .130 | **.058 .050 .067** | .063 .060 .064 | .067 .061 .070 |
/// | address | .094 .160 .011 | **.0002 .097 .0004** | .0013 .089 .001 | .034 .101 .004 |
/// | block | .013 .015 .001 | **.0002 .0002 .0002** | .004 .004 .001 | .006 .006 .001 |
/// | offsets | 0 3.95 .0004 | 0 3.19 .0004 | **0 3.00 .017** | 0 3.38 .001 |
/// | span_bytes | 0 .160 0 | 0 .099 0 | **0 .091 0** | 0 .100 0 |
///
/// The other columns repeat so much that nothing matters. A gather's offsets are random, 24 bits each: 3 bytes.
fn accesses(builder: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
    let encode = |builder: WriterPropertiesBuilder, column: &str, encoding| {
        let path = ColumnPath::from(column.split('.').map(str::to_owned).collect::<Vec<_>>());
        builder.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding)
    };
    [
        ("block", Encoding::DELTA_BINARY_PACKED),
        ("sequence", Encoding::DELTA_BINARY_PACKED),
        ("address", Encoding::DELTA_BINARY_PACKED),
        ("span_bytes", Encoding::BYTE_STREAM_SPLIT),
        ("offsets.list.item", Encoding::BYTE_STREAM_SPLIT),
    ]
    .into_iter()
    .fold(builder, |builder, (column, encoding)| encode(builder, column, encoding))
}
