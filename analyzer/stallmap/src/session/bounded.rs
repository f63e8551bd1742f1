//! Plans of statements within the bounds of planning: see [`stallmap_tables::planning::bounds`].

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use stallmap_tables::planning::bounds::extent::{NamedExtents, PlanExtent};
use stallmap_tables::planning::bounds::{extent, frame, growth, nesting};

/// The plan of a statement, if it is not too large.
pub(crate) async fn plan_of(state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    nesting::check(&statement)?;
    extent::check(&statement, &tables(state, &statement).await?)?;
    let plan = state.statement_to_plan(statement).await?;
    growth::check(&plan)?;
    frame::check(&plan)?;
    Ok(plan)
}

/// The tables and views that a statement names. The planner itself reports a name that means nothing.
async fn tables(state: &SessionState, statement: &Statement) -> Result<NamedExtents> {
    let mut tables = NamedExtents::default();
    for name in state.resolve_table_references(statement)? {
        if let Some(extent) = extent_of(state, &name).await? {
            tables.insert(&name, extent);
        }
    }
    Ok(tables)
}

/// The extent of a table: that of its plan, if the planner puts that in its place.
async fn extent_of(state: &SessionState, name: &TableReference) -> Result<Option<PlanExtent>> {
    let Ok(schema) = state.schema_for_ref(name.clone()) else { return Ok(None) };
    let Some(table) = schema.table(name.table()).await? else { return Ok(None) };
    Ok(Some(match table.get_logical_plan() {
        Some(plan) => PlanExtent::of_plan(&plan),
        None => PlanExtent::of_table(table.schema().fields().len()),
    }))
}
