//! A capture with the text of its source lines, from files of this machine.

use std::collections::BTreeSet;
use std::path::Path;

use crate::rewrite::{CaptureRewrite, TableFate, rewrite};
use crate::{CaptureForm, CaptureWriter};
use arrow::array::RecordBatch;
use stallmap_sass::cubin::Cubin;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::hash;
use stallmap_schema::table::{TableDef, TableRow as _};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::python::{PythonFrame, SourceLine};

use super::{FileLines, candidates};

/// The note in the manifest of such a capture.
const NOTE: &str = "the text of source lines was added after recording, from files of another time";

/// Writes a capture with the text of its lines. Files are looked for below the folder. Returns the number of lines and
/// the number of texts.
///
/// # Errors
/// Fails if the capture cannot be read or the output not be written.
pub fn pack_with_sources(
    reader: &CaptureReader,
    root: &Path,
    output: &Path,
) -> Result<(usize, usize), CaptureError> {
    let rows = lines(reader)?.rows(|file| candidates(file, Some(root)));
    let texts = rows.iter().filter(|row| row.text.is_some()).count();
    let count = rows.len();
    let _manifest: Manifest = rewrite(reader, output, CaptureForm::File, &mut AddedSources { rows })?;
    Ok((count, texts))
}

/// The lines that a capture names.
fn lines(reader: &CaptureReader) -> Result<FileLines, CaptureError> {
    let mut lines = FileLines::default();
    lines.add_frames(&reader.read_rows::<PythonFrame>()?);
    let functions: BTreeSet<_> = reader.read_rows::<Function>()?.iter().map(|row| row.function_id).collect();
    for module in reader.read_rows::<Module>()?.iter().filter(|module| module.file.is_some()) {
        let bytes = reader.cubin(&module.content_hash)?;
        // A damaged cubin has no lines. `check` names the damage.
        let Ok(cubin) = Cubin::read(&bytes) else { continue };
        lines.add_code(&cubin, &bytes, |function| {
            functions.contains(&hash::function_id(module.module_id, &function.name))
        });
    }
    Ok(lines)
}

struct AddedSources {
    rows: Vec<SourceLine>,
}

impl CaptureRewrite for AddedSources {
    fn fate(&self, table: &str) -> TableFate {
        if table == SourceLine::TABLE.name { TableFate::Omitted } else { TableFate::Copied }
    }

    fn change(&mut self, _: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        Ok(batch.clone())
    }

    fn add(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        writer.append_rows(std::mem::take(&mut self.rows))
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes))
    }

    fn notes(&self) -> Vec<String> {
        vec![NOTE.to_owned()]
    }
}
