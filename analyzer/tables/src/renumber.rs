//! Scans of captures of format 1: expressions on a table's ids are rewritten to expressions on the file's.
//!
//! Equality with an id becomes equality with the old one, so statistics still prune row groups. Every other expression
//! computes the new id.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ScalarValue, Statistics};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal, in_list, lit};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use stallmap_schema::capture::numbering::{self, IdNumbering, IdSpace};

/// The columns of a table whose numbers change, and how.
#[derive(Clone, Debug)]
pub(super) struct ColumnRenumbering {
    numbering: Arc<IdNumbering>,
    columns: Vec<(&'static str, IdSpace)>,
}

impl ColumnRenumbering {
    /// The renumbering of a table. `None` if the table holds no ids.
    pub(super) fn for_table(table: &str, numbering: &Arc<IdNumbering>) -> Option<Self> {
        let columns: Vec<_> = numbering::columns(table).collect();
        (!columns.is_empty()).then(|| Self { numbering: Arc::clone(numbering), columns })
    }

    /// A batch of the file with new numbers.
    pub(super) fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let schema = batch.schema();
        let columns = schema.fields().iter().enumerate();
        let columns = columns.filter_map(|(place, field)| Some((place, self.space(field.name())?)));
        Ok(self.numbering.renumber_batch(batch, &columns.collect::<Vec<_>>())?)
    }

    /// Statistics of the file, with new numbers: they grow as the old ones do.
    pub(super) fn statistics(&self, schema: &Schema, mut statistics: Statistics) -> Statistics {
        for (field, column) in schema.fields().iter().zip(&mut statistics.column_statistics) {
            if let Some(space) = self.space(field.name()) {
                column.min_value = self.bound(space, &column.min_value);
                column.max_value = self.bound(space, &column.max_value);
            }
        }
        statistics
    }

    /// The new number of a column's old one.
    pub(super) fn new_number(&self, column: &str, old: u64) -> u64 {
        self.space(column).map_or(old, |space| self.numbering.new_number(space, old))
    }

    fn bound(&self, space: IdSpace, bound: &Precision<ScalarValue>) -> Precision<ScalarValue> {
        bound.clone().map(|value| self.scalar(space, value))
    }

    fn scalar(&self, space: IdSpace, value: ScalarValue) -> ScalarValue {
        match value {
            ScalarValue::UInt64(Some(old)) => {
                ScalarValue::UInt64(Some(self.numbering.new_number(space, old)))
            }
            other => other,
        }
    }

    fn space(&self, column: &str) -> Option<IdSpace> {
        self.columns.iter().find(|(name, _)| *name == column).map(|(_, space)| *space)
    }
}

impl PhysicalExprAdapterFactory for ColumnRenumbering {
    fn create(&self, table: SchemaRef, file: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let default = DefaultPhysicalExprAdapterFactory.create(table, Arc::clone(&file))?;
        Ok(Arc::new(RenumberAdapter { renumbering: self.clone(), default, file }))
    }
}

/// Rewrites expressions on a table's columns to expressions on its file's.
#[derive(Debug)]
struct RenumberAdapter {
    renumbering: ColumnRenumbering,
    default: Arc<dyn PhysicalExprAdapter>,
    file: SchemaRef,
}

impl PhysicalExprAdapter for RenumberAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        self.default.rewrite(expr)?.transform_up(|expr| self.rewrite_one(expr)).data()
    }
}

impl RenumberAdapter {
    /// Rewrites an expression whose inputs are rewritten.
    fn rewrite_one(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
        let column = expr.downcast_ref::<Column>().and_then(|column| self.renumbering.space(column.name()));
        let rewritten = match column {
            Some(space) => Some(Arc::new(NewNumber {
                numbering: Arc::clone(&self.renumbering.numbering),
                space,
                old: Arc::clone(&expr),
            }) as Arc<dyn PhysicalExpr>),
            None => match old_comparison(expr.as_ref()) {
                Some(comparison) => Some(comparison),
                None => self.old_list(expr.as_ref())?,
            },
        };
        Ok(rewritten.map_or_else(|| Transformed::no(expr), Transformed::yes))
    }

    /// `number IN (7, 8)`, on the old number.
    fn old_list(&self, expr: &dyn PhysicalExpr) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(list) = expr.downcast_ref::<InListExpr>() else { return Ok(None) };
        let Some(number) = list.expr().downcast_ref::<NewNumber>() else { return Ok(None) };
        let Some(old) = list.list().iter().map(|literal| number.old_literal(literal)).collect() else {
            return Ok(None);
        };
        in_list(Arc::clone(&number.old), old, &list.negated(), &self.file).map(Some)
    }
}

/// `number = 7`, on the old number.
fn old_comparison(expr: &dyn PhysicalExpr) -> Option<Arc<dyn PhysicalExpr>> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let operator = Some(*binary.op()).filter(|op| matches!(op, Operator::Eq | Operator::NotEq))?;
    let (number, literal) = match binary.left().downcast_ref::<NewNumber>() {
        Some(number) => (number, binary.right()),
        None => (binary.right().downcast_ref::<NewNumber>()?, binary.left()),
    };
    let old = number.old_literal(literal)?;
    Some(Arc::new(BinaryExpr::new(Arc::clone(&number.old), operator, old)))
}

/// The new number of an old one.
#[derive(Debug)]
struct NewNumber {
    numbering: Arc<IdNumbering>,
    space: IdSpace,
    old: Arc<dyn PhysicalExpr>,
}

impl NewNumber {
    /// The old number of a literal, where a row can have it.
    fn old_literal(&self, literal: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        match literal.downcast_ref::<Literal>()?.value() {
            ScalarValue::UInt64(Some(new)) => self.numbering.old_number(self.space, *new).map(lit),
            _ => None,
        }
    }
}

impl PartialEq for NewNumber {
    fn eq(&self, other: &Self) -> bool {
        self.space == other.space && self.old.eq(&other.old) && Arc::ptr_eq(&self.numbering, &other.numbering)
    }
}

impl Eq for NewNumber {}

impl Hash for NewNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.space.owner().hash(state);
        self.old.hash(state);
    }
}

impl fmt::Display for NewNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "new_number({})", self.old)
    }
}

impl PhysicalExpr for NewNumber {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.old.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.old.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Ok(match self.old.evaluate(batch)? {
            ColumnarValue::Array(old) => ColumnarValue::Array(self.numbering.renumber(self.space, &old)),
            ColumnarValue::Scalar(ScalarValue::UInt64(Some(old))) => {
                ColumnarValue::Scalar(ScalarValue::UInt64(Some(self.numbering.new_number(self.space, old))))
            }
            ColumnarValue::Scalar(other) => ColumnarValue::Scalar(other),
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.old]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let old = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.old));
        Ok(Arc::new(Self { numbering: Arc::clone(&self.numbering), space: self.space, old }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "new_number(")?;
        self.old.fmt_sql(f)?;
        write!(f, ")")
    }
}
