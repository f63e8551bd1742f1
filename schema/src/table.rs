//! Table declarations: definitions of tables and columns, and the trait of row types.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct ColumnDef {
    /// Name in the capture.
    pub name: &'static str,
    /// The meaning of the column.
    pub doc: &'static str,
    /// Its Arrow type.
    pub data_type: fn() -> DataType,
    /// Every text that it may have. None if any.
    pub words: fn() -> Option<Vec<&'static str>>,
    /// True if it may be null.
    pub nullable: bool,
    /// The (table, column) whose values this one's must be among, nulls aside.
    pub reference: Option<(&'static str, &'static str)>,
}

impl ColumnDef {
    /// The unit, which the name ends with, by convention.
    pub fn unit(&self) -> Option<&'static str> {
        const UNITS: [(&str, &str); 6] = [
            ("_bytes", "bytes"),
            ("_ns", "nanoseconds"),
            ("_cycles", "cycles"),
            ("_khz", "kilohertz"),
            ("_mask", "one bit a lane"),
            ("_count", "count"),
        ];
        UNITS.iter().find(|(suffix, _)| self.name.ends_with(suffix)).map(|&(_, unit)| unit)
    }

    fn field(&self) -> Field {
        let mut metadata = vec![("doc".to_owned(), self.doc.trim().to_owned())];
        metadata.extend(self.unit().map(|unit| ("unit".to_owned(), unit.to_owned())));
        metadata.extend(
            self.reference.map(|(table, column)| ("reference".to_owned(), format!("{table}.{column}"))),
        );
        Field::new(self.name, (self.data_type)(), self.nullable).with_metadata(metadata.into_iter().collect())
    }
}

/// One table of a capture.
#[derive(Clone, Copy, Debug)]
pub struct TableDef {
    /// Name in the capture: singular, snake case.
    pub name: &'static str,
    /// The meaning of one row.
    pub doc: &'static str,
    /// Columns that identify a row. Empty where rows have no identity.
    pub key: &'static [&'static str],
    /// The order of the rows in a capture.
    pub sort: &'static [&'static str],
    /// The columns in their order.
    pub columns: &'static [ColumnDef],
}

impl TableDef {
    /// The Arrow schema, with doc, unit and reference of each column as metadata.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<Field> = self.columns.iter().map(ColumnDef::field).collect();
        let metadata = [("doc".to_owned(), self.doc.trim().to_owned())].into_iter().collect();
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }
}

/// A row type declared with [`crate::declare`].
pub trait TableRow: Sized {
    /// The table's declaration.
    const TABLE: TableDef;
    /// Collects rows into columns.
    type Builder: Default;

    /// Adds this row.
    fn append(self, builder: &mut Self::Builder);
    /// Ends the columns, in the order of the declaration. The builder is empty afterwards.
    fn finish(builder: &mut Self::Builder) -> Vec<ArrayRef>;
    /// The row at an index of a batch. An error names the column that is missing, null or of another type.
    fn read(batch: &RecordBatch, row: usize) -> Result<Self, ArrowError>;

    /// Rows as a batch of the table's schema.
    fn batch(rows: impl IntoIterator<Item = Self>) -> Result<RecordBatch, ArrowError> {
        let mut builder = Self::Builder::default();
        for row in rows {
            row.append(&mut builder);
        }
        RecordBatch::try_new(Self::TABLE.schema(), Self::finish(&mut builder))
    }

    /// Every row of a batch.
    fn read_all(batch: &RecordBatch) -> Result<Vec<Self>, ArrowError> {
        (0..batch.num_rows()).map(|row| Self::read(batch, row)).collect()
    }
}
