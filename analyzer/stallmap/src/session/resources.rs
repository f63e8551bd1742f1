//! The resources that a session may use: a cache folder and memory. And the one choice that changes its answers.

use stallmap_engine::code::ResultCache;
pub use stallmap_tables::functions::cost_from::CostFrom;

/// The resources of sessions.
#[derive(Clone, Debug)]
pub struct SessionResources {
    /// A folder for results that can be computed again.
    pub cache: ResultCache,
    /// Bytes that a session's queries may take together. Sorts, joins and aggregates write the rest to temporary files.
    /// A query that cannot do so fails. None for no limit.
    pub memory_bytes: Option<usize>,
    /// True to read the rows of views that a capture holds.
    pub reads_stored: bool,
    /// The samples that count as cost, where both the program and replays have some.
    pub cost_from: CostFrom,
    /// Rows times columns of a view above which its rows are held as the bytes of a Parquet file.
    pub most_cells: usize,
}

/// About 50 MiB of rows, of 3 MiB in a file.
const MAX_CELLS: usize = 4 << 20;

impl SessionResources {
    /// No cache, no limit.
    pub const NONE: Self = Self {
        cache: ResultCache::NONE,
        memory_bytes: None,
        reads_stored: true,
        cost_from: CostFrom::Auto,
        most_cells: MAX_CELLS,
    };
}

impl Default for SessionResources {
    fn default() -> Self {
        Self::NONE
    }
}
