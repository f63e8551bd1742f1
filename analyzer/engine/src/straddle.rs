//! The requests whose span does not decide their target, as a filter of a scan.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, UInt64Type};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::col;

use super::index::{TensorIndex, wrong};
use super::resolve::AddressResolver;

/// The columns that it reads.
const COLUMNS: [&str; 3] = ["kernel_id", "address", "span_bytes"];

/// True for a request of device memory whose lanes may have several targets. May be true for accesses to other memory.
///
/// The scan decodes the addresses of lanes for these rows only.
#[derive(Debug)]
pub(super) struct StraddlesExpr {
    children: Vec<Arc<dyn PhysicalExpr>>,
    index: Arc<TensorIndex>,
    /// Resolvers of scans that are not evaluating: each scan continues near its last launch.
    resolvers: Mutex<Vec<AddressResolver>>,
}

impl StraddlesExpr {
    /// The filter of a scan with the columns of `memory_access`.
    pub(super) fn new(schema: &Schema, index: Arc<TensorIndex>) -> Result<Self> {
        let children = COLUMNS.iter().map(|name| col(name, schema)).collect::<Result<_>>()?;
        Ok(Self { children, index, resolvers: Mutex::default() })
    }

    fn evaluate_with(&self, resolver: &mut AddressResolver, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut columns = Vec::new();
        for child in &self.children {
            columns.push(child.evaluate(batch)?.into_array(batch.num_rows())?);
        }
        let column = |place: usize| {
            let column = columns.get(place).and_then(|column| column.as_primitive_opt::<UInt64Type>());
            column.ok_or_else(|| wrong(COLUMNS[place]))
        };
        let (kernels, addresses, spans) = (column(0)?, column(1)?, column(2)?);
        let rows = kernels.values().iter().zip(addresses.values()).zip(spans.values());
        let straddles = rows.map(|((&kernel_id, &address), &span_bytes)| {
            resolver.move_to(kernel_id);
            resolver.whole(address, span_bytes).is_none()
        });
        Ok(straddles.collect::<Vec<bool>>().into())
    }

    fn resolvers(&self) -> std::sync::MutexGuard<'_, Vec<AddressResolver>> {
        // A list of resolvers is whole at all times.
        self.resolvers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for StraddlesExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("may have several targets")
    }
}

impl PartialEq for StraddlesExpr {
    fn eq(&self, other: &Self) -> bool {
        self.children == other.children && Arc::ptr_eq(&self.index, &other.index)
    }
}

impl Eq for StraddlesExpr {}

impl Hash for StraddlesExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.children.hash(state);
    }
}

impl PhysicalExpr for StraddlesExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let known = self.resolvers().pop();
        let mut resolver = known.unwrap_or_else(|| AddressResolver::new(Arc::clone(&self.index)));
        let straddles = self.evaluate_with(&mut resolver, batch)?;
        self.resolvers().push(resolver);
        Ok(ColumnarValue::Array(Arc::new(straddles)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.children.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { children, index: Arc::clone(&self.index), resolvers: Mutex::default() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
