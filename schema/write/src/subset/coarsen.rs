//! A capture with counts in place of accesses: costs stay, the elements that were read go.

use std::collections::BTreeSet;
use std::path::Path;

use crate::rewrite::{CaptureRewrite, TableFate, change_rows, rewrite};
use crate::{CaptureForm, CaptureWriter};
use arrow::array::RecordBatch;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::KernelId;
use stallmap_schema::table::{TableDef, TableRow as _};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::memory::{AccessSummary, MemoryAccess};

use super::counts::{self, AccessCounter};
use super::losses::lose_requests;

/// Writes a capture whose accesses are counted by instruction and block of memory, in the table `access_summary`. The
/// addresses of single requests go. Requests that were recorded count as lost rows, as on a recorder that counts.
/// Returns the number of rows that were counted.
///
/// # Errors
/// Fails if the capture cannot be read or the output not be written.
pub fn coarsen(reader: &CaptureReader, output: &Path) -> Result<u64, CaptureError> {
    // Captures of earlier releases lack the table.
    let summary = match reader.read_rows::<AccessSummary>() {
        Err(CaptureError::MissingTable { .. }) => Vec::new(),
        rows => rows?,
    };
    let measured = summary.iter().map(|row| row.kernel_id).collect();
    let counter = Some(AccessCounter::new(reader)?);
    let mut coarse = CoarseAccesses { summary, measured, counter, rows: 0 };
    rewrite(reader, output, CaptureForm::File, &mut coarse)?;
    Ok(coarse.rows)
}

struct CoarseAccesses {
    summary: Vec<AccessSummary>,
    /// Launches that were counted on the GPU.
    measured: BTreeSet<KernelId>,
    counter: Option<AccessCounter>,
    rows: u64,
}

impl CaptureRewrite for CoarseAccesses {
    fn fate(&self, table: &str) -> TableFate {
        match table {
            name if name == AccessSummary::TABLE.name => TableFate::Omitted,
            name if name == MemoryAccess::TABLE.name || name == LaunchRun::TABLE.name => TableFate::Changed,
            _ => TableFate::Copied,
        }
    }

    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        if table.name == LaunchRun::TABLE.name {
            return change_rows::<LaunchRun>(batch, lose_requests);
        }
        let rows = MemoryAccess::read_all(batch).map_err(|cause| cause.to_string())?;
        self.rows += rows.len() as u64;
        for row in rows.into_iter().filter(|row| !self.measured.contains(&row.kernel_id)) {
            if let Some(counter) = &mut self.counter {
                counter.add(row);
            }
        }
        Ok(RecordBatch::new_empty(table.schema()))
    }

    fn add(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        let mut rows = std::mem::take(&mut self.summary);
        rows.extend(self.counter.take().map(AccessCounter::finish).unwrap_or_default());
        counts::sort(&mut rows);
        writer.append_rows(rows)
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes))
    }

    fn notes(&self) -> Vec<String> {
        vec!["accesses were counted after recording".to_owned()]
    }
}
