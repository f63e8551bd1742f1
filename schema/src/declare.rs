//! Macro for tables: one declaration gives row struct, definition, builder and reader.

/// Declares tables.
///
/// ```text
/// tables! {
///     /// What one row is.
///     Launch "launch" key [kernel_id] sort [kernel_id] {
///         /// What the column means.
///         kernel_id: KernelId,
///         /// A column whose values must be among another's.
///         op_id: Option<OpId> => "op"."op_id",
///     }
/// }
/// ```
///
/// A column without a doc comment does not compile. A row has a default for writers that know a part of it: null where a column
/// can be null, else zero, an empty text or the first word.
#[macro_export]
macro_rules! tables {
    ($(
        $(#[doc = $doc:literal])+
        $row:ident $name:literal key [$($key:ident),*] sort [$($sort:ident),*] {
            $(
                $(#[doc = $cdoc:literal])+
                $column:ident : $type:ty $(=> $rtable:literal . $rcolumn:literal)?,
            )+
        }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $row {
            $($(#[doc = $cdoc])+ pub $column: $type,)+
        }

        const _: () = {
            /// The table's columns while they grow.
            #[derive(Default)]
            pub struct Columns {
                $($column: <$type as $crate::cell::ColumnCell>::Builder,)+
            }

            impl $crate::table::TableRow for $row {
                const TABLE: $crate::table::TableDef = $crate::table::TableDef {
                    name: $name,
                    doc: concat!($($doc,)+),
                    key: &[$(stringify!($key)),*],
                    sort: &[$(stringify!($sort)),*],
                    columns: &[$($crate::table::ColumnDef {
                        name: stringify!($column),
                        doc: concat!($($cdoc,)+),
                        data_type: <$type as $crate::cell::ColumnCell>::data_type,
                        words: <$type as $crate::cell::ColumnCell>::words,
                        nullable: <$type as $crate::cell::ColumnCell>::NULLABLE,
                        reference: $crate::tables!(@reference $($rtable . $rcolumn)?),
                    },)+],
                };
                type Builder = Columns;

                fn append(self, builder: &mut Columns) {
                    $($crate::cell::ColumnCell::append(self.$column, &mut builder.$column);)+
                }

                fn finish(builder: &mut Columns) -> Vec<arrow::array::ArrayRef> {
                    vec![$(arrow::array::ArrayBuilder::finish(&mut builder.$column),)+]
                }

                fn read(
                    batch: &arrow::array::RecordBatch,
                    row: usize,
                ) -> Result<Self, arrow::error::ArrowError> {
                    Ok(Self {
                        $($column: batch
                            .column_by_name(stringify!($column))
                            .map_or_else(<$type as $crate::cell::ColumnCell>::absent, |array| {
                                <$type as $crate::cell::ColumnCell>::read(array.as_ref(), row)
                            })
                            .ok_or_else(|| arrow::error::ArrowError::SchemaError(format!(
                                "table `{}` row {row}: column `{}` is missing, null or of another type",
                                $name, stringify!($column),
                            )))?,)+
                    })
                }
            }
        };
    )+};
    (@reference) => { None };
    (@reference $table:literal . $column:literal) => { Some(($table, $column)) };
}
