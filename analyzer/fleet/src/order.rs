//! A leaf as text, for another process: addresses of captures, the facts about them, and SQL.
//!
//! Conditions are a help: the plan above a leaf applies them again. So those that text may not keep exactly are left out.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::scalar::ScalarValue;
use datafusion::sql::unparser::Unparser;
use datafusion::sql::unparser::dialect::CustomDialectBuilder;
use stallmap::session::resources::SessionResources;
use stallmap_tables::location::CaptureLocation;

use crate::FoundCapture;
use crate::leaf::{CaptureQuery, FleetExec, LeafContext, LeafQuery};
use crate::skipped::SkippedCaptures;

/// A leaf that another process can run.
#[derive(Clone, Debug)]
pub struct LeafOrder {
    /// The query in each capture.
    pub sql: String,
    /// The table that it reads. Its recorded or stored rows are read without a session of their capture.
    pub table: String,
    /// Address and name of each capture.
    pub captures: Vec<(String, String)>,
    /// The facts about each capture that the leaf returns: a row each.
    pub facts: RecordBatch,
    /// The columns of its rows.
    pub schema: SchemaRef,
    /// Captures that are read at the same time.
    pub partitions: usize,
}

impl LeafOrder {
    /// The operator of an order, in a state with stallmap's functions.
    pub fn exec(
        self,
        state: &SessionState,
        resources: SessionResources,
        skipped: Arc<SkippedCaptures>,
    ) -> FleetExec {
        let capture = |(at, (address, name)): (usize, (String, String))| {
            let location = CaptureLocation::from(address.as_str());
            (FoundCapture { location, version: None, name }, self.facts.slice(at, 1))
        };
        let captures =
            self.captures.into_iter().enumerate().take(self.facts.num_rows()).map(capture).collect();
        FleetExec::new(
            LeafQuery::Text { sql: self.sql, table: self.table },
            captures,
            self.schema,
            self.partitions,
            LeafContext::new(state, resources, skipped),
        )
    }
}

impl FleetExec {
    /// Number of captures.
    pub fn captures_len(&self) -> usize {
        self.captures.len()
    }

    /// The same captures in so many parts, which read the given number of captures at the same time.
    pub fn split(&self, parts: usize, partitions: usize) -> Vec<Self> {
        let part = |at: usize| {
            let captures = self.captures.iter().skip(at).step_by(parts).cloned().collect();
            Self::new(
                self.query.clone(),
                captures,
                Arc::clone(self.properties.eq_properties.schema()),
                partitions,
                self.context.clone(),
            )
        };
        (0..parts).map(part).collect()
    }

    /// The leaf for another process.
    pub fn order(&self) -> Result<LeafOrder> {
        let facts: Vec<&RecordBatch> = self.captures.iter().map(|(_, facts)| facts).collect();
        let schema = facts.first().map_or_else(|| Arc::new(Schema::empty()), |facts| facts.schema());
        Ok(LeafOrder {
            sql: match &self.query {
                LeafQuery::Parts(query) => query.sql()?,
                LeafQuery::Text { sql, .. } => sql.clone(),
            },
            table: self.query.table().to_owned(),
            captures: self
                .captures
                .iter()
                .map(|(capture, _)| (capture.location.address(), capture.name.clone()))
                .collect(),
            facts: concat_batches(&schema, facts)?,
            schema: Arc::clone(self.properties.eq_properties.schema()),
            partitions: self.properties.partitioning.partition_count(),
        })
    }
}

impl CaptureQuery {
    /// The query as SQL.
    fn sql(&self) -> Result<String> {
        let dialect = CustomDialectBuilder::new().with_identifier_quote_style('"').build();
        let unparser = Unparser::new(&dialect);
        let columns: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
        let columns = if columns.is_empty() { "1 AS \"row\"".to_owned() } else { columns.join(", ") };
        let mut sql = format!("SELECT {columns} FROM {}", quoted(&self.table));
        for (at, filter) in self.filters.iter().filter(|filter| is_exact_as_text(filter)).enumerate() {
            let word = if at == 0 { "WHERE" } else { "AND" };
            write!(sql, " {word} ({})", unparser.expr_to_sql(filter)?).unwrap_or_default();
        }
        if let Some(limit) = self.limit.filter(|_| self.filters.iter().all(is_exact_as_text)) {
            write!(sql, " LIMIT {limit}").unwrap_or_default();
        }
        Ok(sql)
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// True for a condition of columns, texts, integers and comparisons, which mean the same when they are read as SQL.
fn is_exact_as_text(filter: &Expr) -> bool {
    let mut is_exact = true;
    let walked = filter.apply(|expr| {
        is_exact &= match expr {
            Expr::Column(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::Between(_)
            | Expr::InList(_) => true,
            Expr::Literal(value, _) => is_plain(value),
            Expr::Like(like) => like.escape_char.is_none(),
            Expr::BinaryExpr(binary) => is_comparison(binary.op),
            _ => false,
        };
        Ok(if is_exact { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    is_exact && walked.is_ok()
}

const fn is_comparison(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::And
            | Operator::Or
    )
}

fn is_plain(value: &ScalarValue) -> bool {
    let data_type = value.data_type();
    !value.is_null()
        && (data_type.is_integer()
            || matches!(
                data_type,
                DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            ))
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn a_query_is_text_with_the_conditions_that_text_keeps() {
        let query = |filters: Vec<Expr>, limit| CaptureQuery {
            table: "odd\"table".to_owned(),
            columns: vec!["kernel".to_owned(), "select".to_owned()],
            filters,
            limit,
        };
        let exact =
            vec![col("kernel").like(lit("g%'")).or(col("select").gt(lit(u64::MAX))), col("time").is_null()];
        assert_eq!(
            query(exact.clone(), Some(3)).sql().unwrap(),
            "SELECT \"kernel\", \"select\" FROM \"odd\"\"table\" \
             WHERE ((\"kernel\" LIKE 'g%''' OR (\"select\" > 18446744073709551615))) AND (\"time\" IS NULL) LIMIT 3"
        );
        let inexact =
            vec![col("time").eq(lit(ScalarValue::TimestampNanosecond(Some(7), None))), col("a").gt(lit(0.1))];
        let sql = query([inexact, exact].concat(), Some(3)).sql().unwrap();
        assert!(!sql.contains("LIMIT") && !sql.contains("0.1") && sql.contains("IS NULL"), "{sql}");
        let nothing = CaptureQuery { columns: Vec::new(), ..query(Vec::new(), None) };
        assert_eq!(nothing.sql().unwrap(), "SELECT 1 AS \"row\" FROM \"odd\"\"table\"");
    }
}
