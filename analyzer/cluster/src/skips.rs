//! The captures that queries skipped on this executor, until their scheduler asks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use stallmap_fleet::SkippedCaptures;

/// Most queries that are remembered.
const MAX_QUERIES: usize = 4096;

/// Skipped captures by query, the latest query last.
#[derive(Debug, Default)]
pub(crate) struct SkipBook {
    queries: Mutex<VecDeque<(String, Arc<SkippedCaptures>)>>,
}

impl SkipBook {
    /// Skipped captures of a query, from its first leaf on.
    pub(crate) fn of_query(&self, query: &str) -> Arc<SkippedCaptures> {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, skipped)) = queries.iter().find(|(known, _)| known == query) {
            return Arc::clone(skipped);
        }
        let skipped = Arc::new(SkippedCaptures::new(|_, _| ()));
        queries.push_back((query.to_owned(), Arc::clone(&skipped)));
        if queries.len() > MAX_QUERIES {
            queries.pop_front();
        }
        skipped
    }
}
