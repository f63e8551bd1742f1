//! Messages between processes of a cluster, next to the rows and plans of the engine.

use std::collections::BTreeMap;

/// The action by which an executor says where it listens. Body: its URL.
pub(crate) const REGISTER: &str = "register";
/// The action that asks an executor whether it can work.
pub(crate) const PROBE: &str = "probe";
/// The action that asks an executor for the captures that a query skipped. Body: the query's id.
pub(crate) const SKIPPED: &str = "skipped";

/// A statement over captures.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ClusterQuery {
    /// Folders and captures.
    #[prost(string, repeated, tag = "1")]
    pub(crate) places: Vec<String>,
    #[prost(string, tag = "2")]
    pub(crate) sql: String,
    /// The samples that count as cost.
    #[prost(string, tag = "3")]
    pub(crate) cost_from: String,
    /// True to compute views although captures hold their rows.
    #[prost(bool, tag = "4")]
    pub(crate) recomputes: bool,
}

/// A leaf: a query in each of some captures.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeafMessage {
    /// The query that it is of.
    #[prost(string, tag = "1")]
    pub(crate) query: String,
    #[prost(string, tag = "2")]
    pub(crate) sql: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) addresses: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) names: Vec<String>,
    /// Rows of facts, as an Arrow stream.
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) facts: Vec<u8>,
    /// The leaf's columns, as an Arrow stream without rows.
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) schema: Vec<u8>,
    #[prost(uint32, tag = "7")]
    pub(crate) partitions: u32,
    #[prost(string, tag = "8")]
    pub(crate) cost_from: String,
    #[prost(bool, tag = "9")]
    pub(crate) recomputes: bool,
    /// The table that the query reads.
    #[prost(string, tag = "10")]
    pub(crate) table: String,
}

/// The captures that a query skipped, behind its rows.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SkippedMessage {
    /// Reasons by name.
    #[prost(btree_map = "string, string", tag = "1")]
    pub(crate) reasons: BTreeMap<String, String>,
    /// Captures that the query could read, and these.
    #[prost(uint64, tag = "2")]
    pub(crate) found: u64,
}
