//! Parquet encoding of each table's columns.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use stallmap_schema::table::{TableDef, TableRow};
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::replay::{BundleContent, BundlePage, BundleSymbol};

/// Rows of a row group: small enough that one launch is read from a large capture in milliseconds.
pub const ROW_GROUP_ROWS: usize = 128 << 10;
/// Rows of a row group of contents: 32 MiB of them.
pub const CONTENT_ROW_GROUP_ROWS: usize = 8 << 10;
/// Rows of a page.
pub(crate) const PAGE_ROWS: usize = 16 << 10;
const ZSTD_LEVEL: i32 = 3;
/// Accesses are so many that compression bounds the rate of finalizing. Offsets of gathers alone are larger at this
/// level, by 15 %.
const ACCESSES_ZSTD_LEVEL: i32 = 1;

/// Properties of a table's file; `None` for a table that this release does not know.
pub fn properties(table: Option<&TableDef>) -> WriterProperties {
    let builder = WriterProperties::builder()
        .set_compression(zstd(ZSTD_LEVEL))
        .set_created_by(format!("stallmap {}", env!("CARGO_PKG_VERSION")))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Page);
    let Some(table) = table else { return builder.build() };
    let builder = builder.set_sorting_columns(sorting(table));
    let builder = match table.name {
        name if name == MemoryAccess::TABLE.name => encode(builder, ACCESSES)
            .set_compression(zstd(ACCESSES_ZSTD_LEVEL))
            .set_column_compression(path(OFFSETS), zstd(ZSTD_LEVEL)),
        name if name == BundlePage::TABLE.name => encode(builder, PAGES),
        name if name == BundleSymbol::TABLE.name => encode(builder, SYMBOLS),
        name if name == BundleContent::TABLE.name => contents(builder),
        _ => builder,
    };
    builder.build()
}

fn zstd(level: i32) -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(level).unwrap_or_default())
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
const ACCESSES: &[(&str, Encoding)] = &[
    ("block", Encoding::DELTA_BINARY_PACKED),
    ("sequence", Encoding::DELTA_BINARY_PACKED),
    ("address", Encoding::DELTA_BINARY_PACKED),
    ("span_bytes", Encoding::BYTE_STREAM_SPLIT),
    (OFFSETS, Encoding::BYTE_STREAM_SPLIT),
];
const OFFSETS: &str = "offsets.list.item";

/// Addresses and contents of a launch's pages count on in long runs. Hashes are random.
const PAGES: &[(&str, Encoding)] = &[
    ("address", Encoding::DELTA_BINARY_PACKED),
    ("content_id", Encoding::DELTA_BINARY_PACKED),
    ("hash_after", Encoding::PLAIN),
];

const SYMBOLS: &[(&str, Encoding)] =
    &[("content_id", Encoding::DELTA_BINARY_PACKED), ("hash_after", Encoding::PLAIN)];

const CONTENTS: &[(&str, Encoding)] =
    &[("content_id", Encoding::DELTA_BINARY_PACKED), ("hash", Encoding::PLAIN), ("bytes", Encoding::PLAIN)];

/// Contents are distinct, so neither a dictionary of them nor their minimum and maximum is of use.
fn contents(builder: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
    let bytes = ColumnPath::from("bytes");
    encode(builder, CONTENTS)
        .set_max_row_group_row_count(Some(CONTENT_ROW_GROUP_ROWS))
        .set_column_statistics_enabled(bytes, EnabledStatistics::None)
}

fn encode(builder: WriterPropertiesBuilder, columns: &[(&str, Encoding)]) -> WriterPropertiesBuilder {
    columns.iter().fold(builder, |builder, (column, encoding)| {
        builder
            .set_column_dictionary_enabled(path(column), false)
            .set_column_encoding(path(column), *encoding)
    })
}

fn path(column: &str) -> ColumnPath {
    ColumnPath::from(column.split('.').map(str::to_owned).collect::<Vec<_>>())
}
