//! Tables that a user's statements make: DataFusion holds their rows without a reservation, and a session holds them to its
//! end. Those of the library are small, or parts of captures.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, LogicalPlanBuilder, UNNAMED_TABLE};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt as _;

/// The memory of a session's tables, in its configuration.
#[derive(Debug, Default)]
pub(super) struct MadeTables(Mutex<Vec<MemoryReservation>>);

/// A plan that makes a table, with the table's rows in reserved memory. Other plans stay as they are.
pub(super) async fn with_reserved_rows(context: &SessionContext, plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(mut table)) = plan else { return Ok(plan) };
    let frame = context.execute_logical_plan(table.input.as_ref().clone()).await?;
    let consumer = MemoryConsumer::new(format!("table {}", table.name));
    let reservation = consumer.register(&context.runtime_env().memory_pool);
    let (mut rows, mut batches) = (frame.execute_stream().await?, Vec::new());
    while let Some(batch) = rows.try_next().await? {
        reservation.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    let held = MemTable::try_new(rows.schema(), vec![batches])?;
    let scan = LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(Arc::new(held)), None)?;
    table.input = Arc::new(scan.build()?);
    let tables = context.copied_config().get_extension::<MadeTables>().unwrap_or_default();
    tables.0.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
    Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(table)))
}
