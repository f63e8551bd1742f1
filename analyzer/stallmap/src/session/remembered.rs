//! Rows of the library's queries on disk, by the content of all captures, the rules, the text of the query, and the
//! samples that count as cost.
//!
//! A report is asked for again and again, and planning its queries takes longer than running them. As for views, the key
//! holds content and rules, and nothing stored can be out of date.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use stallmap_engine::code::ResultCache;

use super::Session;
use super::stored::{CacheEntry, StoredRows, load_rows, save};
use crate::library;

/// Maximum size of remembered rows in memory.
const MAX_BYTES: usize = 64 << 20;

impl Session {
    /// The rows of a query of the library that an earlier session left. None after a statement that changed this one.
    pub fn remembered(&self, sql: &str) -> Option<Vec<RecordBatch>> {
        if self.is_changed() { None } else { self.remembered_script(sql) }
    }

    /// Leaves the rows of a query of the library to later sessions. Large ones, and those of a session that a statement
    /// changed, are left out.
    pub fn remember(&self, sql: &str, rows: &[RecordBatch]) {
        if !self.is_changed() {
            self.remember_script(sql, rows);
        }
    }

    /// The rows of statements that read nothing but what they make themselves, and captures.
    pub fn remembered_script(&self, sql: &str) -> Option<Vec<RecordBatch>> {
        let question = self.question(sql)?;
        let stored = load_rows(self.cache()?, &self.answer(&question)?)?;
        let is_empty = stored.rows.is_empty();
        Some(if is_empty { vec![RecordBatch::new_empty(stored.schema)] } else { stored.rows })
    }

    /// The same, to leave them.
    pub fn remember_script(&self, sql: &str, rows: &[RecordBatch]) {
        let size_bytes: usize = rows.iter().map(RecordBatch::get_array_memory_size).sum();
        let (Some(question), Some(first)) = (self.question(sql), rows.first()) else { return };
        let Some(entry) = self.answer(&question) else { return };
        if size_bytes <= MAX_BYTES {
            let schema = Arc::clone(first.schema_ref());
            // What cannot be written is computed again.
            save(&entry, &StoredRows { schema, rows: rows.to_vec(), sources: BTreeSet::new() });
        }
    }

    /// The text of a query, with the samples that count as cost.
    fn question(&self, sql: &str) -> Option<String> {
        Some(self.captures.first()?.store.name(sql))
    }

    /// The file of a query's rows. None if they depend on more than the captures' content, or without a cache.
    fn answer(&self, question: &str) -> Option<CacheEntry> {
        // Without a cache nothing is hashed.
        let cache = self.cache().filter(|cache| cache.folder().is_some())?;
        let is_extended = self.views.len() > library::views().ok()?.len() || !self.queries.is_empty();
        if is_extended {
            return None;
        }
        let mut all = blake3::Hasher::new();
        for capture in &self.captures {
            all.update(&(capture.name.len() as u64).to_le_bytes());
            all.update(capture.name.as_bytes());
            all.update(capture.store.content()?.as_bytes());
        }
        CacheEntry::for_name(cache, "answers", &all.finalize(), &blake3::hash(question.as_bytes()).to_hex())
    }

    /// The cache, which all captures share.
    fn cache(&self) -> Option<&ResultCache> {
        self.captures.first().map(|capture| capture.store.cache())
    }
}
