//! Recorded captures with other rows in some tables: a program that did something else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::compute::cast;
use arrow::record_batch::RecordBatch;
use stallmap::session::Session;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::table::TableDef;
use stallmap_schema::tables;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::answer;

/// A table, and the query over the recorded capture that gives its rows.
pub(crate) type TableChange<'a> = (&'a str, &'a str);

/// A capture below `testdata` whose changed tables have the rows of queries.
pub(crate) async fn craft(name: &str, changes: &[TableChange<'_>], folder: &Path) -> Session {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/{name}.stallmap"));
    let session = Session::open(&[(None, recorded.clone())]).unwrap();
    let reader = CaptureReader::open(&recorded).unwrap();
    let path = folder.join("crafted.stallmap");
    let mut writer = CaptureWriter::create(&path, CaptureForm::File).unwrap();
    let is_same = |name: &str| changes.iter().all(|(changed, _)| *changed != name);
    for table in reader.tables().iter().filter(|table| is_same(&table.name)) {
        writer.take_table(&reader, table).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.verified_entry(&file.path).unwrap()).unwrap();
    }
    for (name, sql) in changes {
        let table = tables::by_name(name).unwrap();
        for batch in rows(&session, table, sql).await {
            writer.append(name, &batch).unwrap();
        }
    }
    writer.finish().unwrap();
    open(path)
}

fn open(path: PathBuf) -> Session {
    Session::open(&[(None, path)]).unwrap()
}

/// The rows of a query in the table's order and types.
async fn rows(session: &Session, table: &TableDef, sql: &str) -> Vec<RecordBatch> {
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let order =
        if table.sort.is_empty() { String::new() } else { format!("ORDER BY {}", table.sort.join(", ")) };
    let sql = format!("SELECT {} FROM ({sql}) {order}", columns.join(", "));
    let schema = table.schema();
    let frame = session.sql(&sql).await.unwrap_or_else(|error| panic!("{error}: {sql}"));
    let typed = |batch: RecordBatch| {
        let columns = batch.columns().iter().zip(schema.fields().iter());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()).unwrap()).collect();
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    frame.collect().await.unwrap().into_iter().map(typed).collect()
}

/// The rows of a query over a crafted capture.
pub(crate) async fn crafted(name: &str, changes: &[TableChange<'_>], sql: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let session = craft(name, changes, folder.path()).await;
    answer(&session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}
