//! The order of view definitions: each after the views that it reads.

use std::collections::BTreeSet;

use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;

use super::ViewDoc;

/// Views that wait for others, with the names that each reads.
pub(super) type WaitingViews<'a> = Vec<(&'a ViewDoc, BTreeSet<String>)>;

/// The views, each after the views that it reads, and those in cycles.
pub(super) fn ordered(mut waiting: WaitingViews<'_>) -> (Vec<&ViewDoc>, WaitingViews<'_>) {
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let names: BTreeSet<String> = waiting.iter().map(|(view, _)| view.name.clone()).collect();
        let (ready, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, reads)| reads.is_disjoint(&names));
        if ready.is_empty() {
            return (ordered, rest);
        }
        ordered.extend(ready.into_iter().map(|(view, _)| view));
        waiting = rest;
    }
    (ordered, Vec::new())
}

/// The names that a view's text reads. Its own name counts only if it reads nothing else by that name.
pub(super) fn reads(state: &SessionState, view: &ViewDoc) -> Result<BTreeSet<String>, DataFusionError> {
    let statement = state.sql_to_statement(&view.sql, &Dialect::Generic)?;
    let names = state.resolve_table_references(&statement)?;
    Ok(names.into_iter().map(|name| name.table().to_owned()).filter(|name| *name != view.name).collect())
}
