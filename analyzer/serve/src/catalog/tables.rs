//! The catalog's tables, with the columns that clients read.

use std::iter::repeat_n;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use stallmap::error::AnalyzeError;

use super::relations::CatalogRelations;
use crate::kind::PostgresType;
use crate::statement::SETTINGS;

/// The number of `pg_class` itself, in `pg_description`.
const CLASS: i64 = 1_259;
/// The number of the only role.
const OWNER: i64 = 10;
/// The number of the schema `pg_catalog`.
const CATALOG: i64 = 11;

/// The name and the rows of a table.
type CatalogTable = (&'static str, Arc<dyn TableProvider>);

/// Columns of one table: names and values.
struct CatalogColumns {
    rows: usize,
    list: Vec<(&'static str, ArrayRef)>,
}

impl CatalogColumns {
    fn new(rows: usize) -> Self {
        Self { rows, list: Vec::new() }
    }

    fn ids(mut self, name: &'static str, values: impl IntoIterator<Item = i64>) -> Self {
        self.list.push((name, Arc::new(Int64Array::from_iter_values(values))));
        self
    }

    fn texts<T: AsRef<str>>(mut self, name: &'static str, values: impl IntoIterator<Item = T>) -> Self {
        self.list.push((name, Arc::new(StringArray::from_iter_values(values))));
        self
    }

    fn short(mut self, name: &'static str, values: impl IntoIterator<Item = i16>) -> Self {
        self.list.push((name, Arc::new(Int16Array::from_iter_values(values))));
        self
    }

    fn floats(mut self, name: &'static str, values: impl IntoIterator<Item = f32>) -> Self {
        self.list.push((name, Arc::new(Float32Array::from_iter_values(values))));
        self
    }

    /// Columns with the same number in every row.
    fn all_ids(mut self, names: &[&'static str], value: i64) -> Self {
        for name in names {
            self.list.push((name, Arc::new(Int64Array::from_iter_values(repeat_n(value, self.rows)))));
        }
        self
    }

    /// Columns with -1 in every row: a type has no modifier.
    fn no_modifier(mut self, name: &'static str) -> Self {
        self.list.push((name, Arc::new(Int32Array::from(vec![-1; self.rows]))));
        self
    }

    fn all_texts(mut self, names: &[&'static str], value: &str) -> Self {
        for name in names {
            self.list.push((name, Arc::new(StringArray::from_iter_values(repeat_n(value, self.rows)))));
        }
        self
    }

    fn all_null(mut self, names: &[&'static str]) -> Self {
        for name in names {
            self.list.push((name, Arc::new(StringArray::new_null(self.rows))));
        }
        self
    }

    fn all_bools(mut self, names: &[&'static str], value: bool) -> Self {
        for name in names {
            self.list.push((name, Arc::new(repeat_n(Some(value), self.rows).collect::<BooleanArray>())));
        }
        self
    }

    fn table(self, name: &'static str) -> Result<CatalogTable, AnalyzeError> {
        let batch = RecordBatch::try_from_iter_with_nullable(
            self.list.into_iter().map(|(name, array)| (name, array, true)),
        );
        let batch = batch.map_err(datafusion::error::DataFusionError::from)?;
        Ok((name, Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }
}

/// Every table.
pub(super) fn all(relations: &CatalogRelations) -> Result<Vec<CatalogTable>, AnalyzeError> {
    Ok(vec![
        schemas(relations)?,
        classes(relations)?,
        attributes(relations)?,
        descriptions(relations)?,
        types()?,
        database()?,
        role("pg_roles", "rolname")?,
        role("pg_user", "usename")?,
        settings()?,
        CatalogColumns::new(0).ids("oid", []).texts::<&str>("amname", []).table("pg_am")?,
        CatalogColumns::new(0)
            .ids("adrelid", [])
            .ids("adnum", [])
            .texts::<&str>("adbin", [])
            .table("pg_attrdef")?,
    ])
}

fn schemas(relations: &CatalogRelations) -> Result<CatalogTable, AnalyzeError> {
    let own = [(CATALOG, "pg_catalog")];
    let all: Vec<(i64, &str)> = relations.schemas().chain(own).collect();
    CatalogColumns::new(all.len())
        .ids("oid", all.iter().map(|(id, _)| *id))
        .texts("nspname", all.iter().map(|(_, name)| name))
        .all_ids(&["nspowner"], OWNER)
        .all_null(&["nspacl"])
        .table("pg_namespace")
}

fn classes(relations: &CatalogRelations) -> Result<CatalogTable, AnalyzeError> {
    let all: Vec<_> = relations.iter().collect();
    CatalogColumns::new(all.len())
        .ids("oid", all.iter().map(|(id, _)| *id))
        .texts("relname", all.iter().map(|(_, relation)| &relation.name))
        .ids("relnamespace", all.iter().map(|(_, relation)| relation.schema))
        .texts("relkind", all.iter().map(|(_, relation)| if relation.sql.is_some() { "v" } else { "r" }))
        .floats("reltuples", all.iter().map(|(_, relation)| relation.rows as f32))
        .short("relnatts", all.iter().map(|(_, relation)| i16::try_from(relation.columns.len()).unwrap_or(0)))
        .all_ids(&["relowner"], OWNER)
        .all_ids(
            &["relchecks", "reltablespace", "reloftype", "reltoastrelid", "relam", "reltype", "relpages"],
            0,
        )
        .all_bools(&["relhasindex", "relhastriggers", "relrowsecurity", "relforcerowsecurity"], false)
        .all_bools(&["relhasrules", "relispartition", "relhassubclass"], false)
        .all_texts(&["relpersistence"], "p")
        .all_texts(&["relreplident"], "n")
        .all_null(&["reloptions", "relacl", "relpartbound"])
        .table("pg_class")
}

fn attributes(relations: &CatalogRelations) -> Result<CatalogTable, AnalyzeError> {
    let all: Vec<_> = relations
        .iter()
        .flat_map(|(id, relation)| {
            (1..).zip(&relation.columns).map(move |(number, column)| (id, number, column))
        })
        .collect();
    CatalogColumns::new(all.len())
        .ids("attrelid", all.iter().map(|(id, ..)| *id))
        .texts("attname", all.iter().map(|(.., (name, ..))| name))
        .ids("atttypid", all.iter().map(|(.., (_, column, _))| i64::from(column.type_id())))
        .short("attlen", all.iter().map(|(.., (_, column, _))| column.size()))
        .short("attnum", all.iter().map(|(_, number, _)| *number))
        .no_modifier("atttypmod")
        .all_ids(&["attcollation", "attndims"], 0)
        .all_bools(&["attnotnull", "attisdropped", "atthasdef"], false)
        .all_texts(&["attidentity", "attgenerated", "attcompression"], "")
        .all_texts(&["attstorage"], "p")
        .no_modifier("attstattarget")
        .table("pg_attribute")
}

/// Docs of relations, at number 0, and of their columns.
fn descriptions(relations: &CatalogRelations) -> Result<CatalogTable, AnalyzeError> {
    let all: Vec<_> = relations
        .iter()
        .flat_map(|(id, relation)| {
            let columns = (1..).zip(relation.columns.iter().map(|(.., doc)| doc));
            std::iter::once((0, &relation.doc)).chain(columns).map(move |(number, doc)| (id, number, doc))
        })
        .filter(|(.., doc)| !doc.is_empty())
        .collect();
    CatalogColumns::new(all.len())
        .ids("objoid", all.iter().map(|(id, ..)| *id))
        .ids("objsubid", all.iter().map(|(_, number, _)| *number))
        .texts("description", all.iter().map(|(.., doc)| doc))
        .all_ids(&["classoid"], CLASS)
        .table("pg_description")
}

/// The types of columns, and their arrays.
fn types() -> Result<CatalogTable, AnalyzeError> {
    let plain = PostgresType::ALL.map(PostgresType::entry);
    let all: Vec<(u32, u32, u32, String, i16)> = plain
        .iter()
        .map(|(id, array, name, size)| (*id, *array, 0, (*name).to_owned(), *size))
        .chain(plain.iter().map(|(id, array, name, _)| (*array, 0, *id, format!("_{name}"), -1)))
        .collect();
    CatalogColumns::new(all.len())
        .ids("oid", all.iter().map(|(id, ..)| i64::from(*id)))
        .ids("typarray", all.iter().map(|(_, array, ..)| i64::from(*array)))
        .ids("typelem", all.iter().map(|(_, _, item, ..)| i64::from(*item)))
        .texts("typname", all.iter().map(|(_, _, _, name, _)| name))
        .short("typlen", all.iter().map(|(.., size)| *size))
        .texts("typcategory", all.iter().map(|(_, _, item, ..)| if *item == 0 { "S" } else { "A" }))
        .all_ids(&["typnamespace"], CATALOG)
        .all_ids(&["typowner"], OWNER)
        .all_ids(&["typrelid", "typbasetype"], 0)
        .all_texts(&["typtype"], "b")
        .all_texts(&["typdelim"], ",")
        .all_bools(&["typnotnull"], false)
        .no_modifier("typtypmod")
        .table("pg_type")
}

fn database() -> Result<CatalogTable, AnalyzeError> {
    CatalogColumns::new(1)
        .all_ids(&["oid"], 1)
        .all_ids(&["datdba"], OWNER)
        .all_ids(&["encoding"], 6)
        .all_texts(&["datname"], "stallmap")
        .all_texts(&["datcollate", "datctype"], "C")
        .all_bools(&["datistemplate"], false)
        .all_bools(&["datallowconn"], true)
        .all_null(&["datacl"])
        .table("pg_database")
}

fn role(table: &'static str, name: &'static str) -> Result<CatalogTable, AnalyzeError> {
    CatalogColumns::new(1)
        .all_ids(&["oid"], OWNER)
        .all_texts(&[name], "stallmap")
        .all_bools(&["rolsuper", "rolinherit", "rolcreaterole", "rolcreatedb", "rolreplication"], false)
        .all_bools(&["rolbypassrls", "usesuper"], false)
        .all_bools(&["rolcanlogin"], true)
        .all_ids(&["rolconnlimit"], -1)
        .all_null(&["rolvaliduntil"])
        .table(table)
}

fn settings() -> Result<CatalogTable, AnalyzeError> {
    CatalogColumns::new(SETTINGS.len())
        .texts("name", SETTINGS.iter().map(|(name, _)| name))
        .texts("setting", SETTINGS.iter().map(|(_, value)| value))
        .table("pg_settings")
}
