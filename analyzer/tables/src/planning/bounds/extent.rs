//! Bounds on the relations and columns of a statement's plan, counted in the parsed statement.
//!
//! DataFusion copies the plan of a CTE to each place that names it, and that of a view, too. 24 CTEs that each name the one
//! before twice are 916 bytes, and their plan has 16 million relations. A product of 500 tables has a row of all their
//! columns, and the product of 499 another. Here each CTE is counted once, and multiplied by the places that name it: that
//! takes as long as reading the statement.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    TableAlias, TableFactor, TableWithJoins, Visit, Visitor, With,
};

use crate::planning::bounds::visit;

/// Most relations of a plan: tables, views and SELECTs. Statements over all tables of hundreds of captures have fewer.
const MAX_RELATIONS: u64 = 2_000;
/// Most SELECTs and joins of a plan above each other. Planning takes time and memory that grow with the square of their
/// number. A chain of more than 128 joins never ends: it waits for itself (tokio's budget of a step).
const MAX_LEVELS: u64 = 100;
/// Most columns of a plan, those of each of its steps.
const MAX_COLUMNS: u64 = 1_000_000;

/// The size of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanExtent {
    /// Its relations, each counted wherever it is read.
    relations: u64,
    /// The columns of all its steps.
    columns: u64,
    /// The columns of its rows.
    width: u64,
    /// SELECTs and joins above each other.
    levels: u64,
}

impl PlanExtent {
    /// A table, or another source that is planned as one step.
    pub const fn of_table(columns: usize) -> Self {
        Self { relations: 1, columns: columns as u64, width: columns as u64, levels: 0 }
    }

    /// A plan. Parts that it shares are counted wherever they are read.
    pub fn of_plan(plan: &LogicalPlan) -> Self {
        let mut known = HashMap::new();
        of_shared_plan(plan, &mut known)
    }

    /// This relation next to another one: a row has the columns of both.
    fn joined(self, other: Self) -> Self {
        let width = self.width.saturating_add(other.width);
        // The first relation of a FROM is joined to nothing.
        let is_first = self.width == 0 && self.levels == 0;
        let below = if is_first { self.plus(other) } else { self.below(other) };
        below.with_step(width)
    }

    /// This relation below a join with another one, whose columns are not in its rows.
    fn below(self, other: Self) -> Self {
        let both = self.plus(other);
        Self { levels: both.levels.saturating_add(1), ..both }
    }

    /// This relation, and another one whose columns are not in its rows.
    fn plus(self, other: Self) -> Self {
        Self {
            relations: self.relations.saturating_add(other.relations),
            columns: self.columns.saturating_add(other.columns),
            width: self.width,
            levels: self.levels.max(other.levels),
        }
    }

    /// A step above this relation, with so many columns.
    fn with_step(self, width: u64) -> Self {
        Self { columns: self.columns.saturating_add(width), width, ..self }
    }

    /// A SELECT above this relation.
    fn selected(self, width: u64) -> Self {
        let selected = self.with_step(width);
        Self { levels: self.levels.saturating_add(1), ..selected }
    }

    fn checked(self) -> ControlFlow<String, Self> {
        let hint = "name fewer, or narrow each part before it is joined";
        if self.relations > MAX_RELATIONS {
            return ControlFlow::Break(format!(
                "the statement reads {} relations or more, each CTE and view counted wherever it is named, and the most are \
                 {MAX_RELATIONS}: {hint}",
                self.relations
            ));
        }
        if self.levels > MAX_LEVELS {
            return ControlFlow::Break(format!(
                "the statement has {} SELECTs and joins above each other, and the most are {MAX_LEVELS}: {hint}",
                self.levels
            ));
        }
        if self.columns > MAX_COLUMNS {
            return ControlFlow::Break(format!(
                "the steps of the statement have {} columns, and the most are {MAX_COLUMNS}: {hint}",
                self.columns
            ));
        }
        ControlFlow::Continue(self)
    }
}

/// The extent of a plan, from those of its parts that are known.
fn of_shared_plan(plan: &LogicalPlan, known: &mut HashMap<*const LogicalPlan, PlanExtent>) -> PlanExtent {
    let mut waiting = vec![(plan, false)];
    while let Some((node, are_inputs_known)) = waiting.pop() {
        if known.contains_key(&std::ptr::from_ref(node)) {
            continue;
        }
        if are_inputs_known {
            let extent = of_step(node, known);
            known.insert(std::ptr::from_ref(node), extent);
        } else {
            waiting.push((node, true));
            waiting.extend(node.inputs().into_iter().map(|input| (input, false)));
        }
    }
    known.get(&std::ptr::from_ref(plan)).copied().unwrap_or_default()
}

/// The extent of a step whose inputs are known.
fn of_step(node: &LogicalPlan, known: &mut HashMap<*const LogicalPlan, PlanExtent>) -> PlanExtent {
    let inputs = node.inputs();
    let below = inputs.iter().filter_map(|input| known.get(&std::ptr::from_ref(*input)));
    let mut below = below.copied().fold(PlanExtent::default(), PlanExtent::plus);
    below.relations += u64::from(inputs.is_empty());
    let mut subqueries = Vec::new();
    let visited = node.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Some(subquery) = subquery(part) {
                subqueries.push(subquery);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    });
    // A visit that never fails.
    drop(visited);
    let below = subqueries.iter().fold(below, |below, plan| below.plus(of_shared_plan(plan, known)));
    let width = node.schema().fields().len() as u64;
    match node {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Join(_) => {
            below.selected(width)
        }
        _ => below.with_step(width),
    }
}

/// The plan within an expression.
pub(crate) fn subquery(expr: &Expr) -> Option<Arc<LogicalPlan>> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(Arc::clone(&subquery.subquery)),
        Expr::Exists(exists) => Some(Arc::clone(&exists.subquery.subquery)),
        Expr::InSubquery(within) => Some(Arc::clone(&within.subquery.subquery)),
        Expr::SetComparison(comparison) => Some(Arc::clone(&comparison.subquery.subquery)),
        _ => None,
    }
}

/// The tables and views that a statement names, with their extents.
#[derive(Debug, Default)]
pub struct NamedExtents(HashMap<Vec<String>, PlanExtent>);

impl NamedExtents {
    /// Adds one.
    pub fn insert(&mut self, name: &TableReference, extent: PlanExtent) {
        let parts = [name.catalog(), name.schema(), Some(name.table())];
        self.0.insert(parts.into_iter().flatten().map(str::to_owned).collect(), extent);
    }
}

/// Fails for a statement whose plan would have too many relations or columns.
pub fn check(statement: &Statement, tables: &NamedExtents) -> Result<()> {
    let mut counter = ExtentCounter { tables, ctes: Vec::new() };
    let found = PlanExtent::default();
    let mut whole = ExpressionCounter { counter: &mut counter, found, has_tables: true, depth: 0 };
    match visit(statement, &mut whole) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(reason) => Err(DataFusionError::Plan(reason)),
    }
}

type ExtentFlow = ControlFlow<String, PlanExtent>;

/// Counts the parts of a statement.
struct ExtentCounter<'a> {
    tables: &'a NamedExtents,
    /// The CTEs that can be named, the innermost last.
    ctes: Vec<(String, PlanExtent)>,
}

impl ExtentCounter<'_> {
    fn query(&mut self, query: &Query) -> ExtentFlow {
        let outer = self.ctes.len();
        if let Some(with) = &query.with {
            self.with(with)?;
        }
        let mut all = self.set(&query.body)?;
        for part in [
            self.expressions(&query.order_by, false)?,
            self.expressions(&query.limit_clause, false)?,
            self.expressions(&query.fetch, false)?,
            self.expressions(&query.pipe_operators, true)?,
        ] {
            let width = all.width.saturating_add(part.width);
            all = all.plus(part).with_step(width);
        }
        self.ctes.truncate(outer);
        all.checked()
    }

    fn with(&mut self, with: &With) -> ControlFlow<String> {
        for cte in &with.cte_tables {
            let name = normalized(&cte.alias.name);
            let outer = self.ctes.len();
            if with.recursive {
                // Within itself, its name is a table of the rows that it has so far.
                let first = match cte.query.body.as_ref() {
                    SetExpr::SetOperation { left, .. } => self.set(left)?.width,
                    _ => 1,
                };
                self.ctes.push((
                    name.clone(),
                    PlanExtent { relations: 1, columns: first, width: first, levels: 0 },
                ));
            }
            let extent = self.query(&cte.query)?;
            self.ctes.truncate(outer);
            self.ctes.push((name, extent.with_step(extent.width)));
        }
        ControlFlow::Continue(())
    }

    /// A set, whose first parts are nested as deep as there are parts.
    fn set(&mut self, set: &SetExpr) -> ExtentFlow {
        let (mut first, mut others) = (set, Vec::new());
        while let SetExpr::SetOperation { left, op, right, .. } = first {
            others.push((op, right));
            first = left;
        }
        let mut all = match first {
            SetExpr::Select(select) => self.select(select)?,
            SetExpr::Query(query) => self.query(query)?,
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.content.len());
                self.expressions(values, false)?.plus(PlanExtent::of_table(0)).with_step(width as u64)
            }
            other => self.expressions(other, true)?.plus(PlanExtent::of_table(0)),
        };
        for (op, other) in others.into_iter().rev() {
            let other = self.set(other)?;
            let width = all.width.max(other.width);
            all = if *op == SetOperator::Union { all.plus(other) } else { all.below(other) };
            all = all.with_step(width).checked()?;
        }
        ControlFlow::Continue(all)
    }

    fn select(&mut self, select: &Select) -> ExtentFlow {
        let mut from = PlanExtent { relations: 1, ..PlanExtent::default() };
        let mut named = Vec::new();
        for table in &select.from {
            from = self.joined(from, table, &mut named)?;
        }
        let widths = select.projection.iter().map(|item| width(item, from.width, &named));
        let width = widths.fold(0, u64::saturating_add);
        let subqueries = self.expressions(select, false)?;
        from.plus(subqueries).selected(width).checked()
    }

    /// A relation with the tables that are joined to it.
    fn joined(
        &mut self,
        from: PlanExtent,
        table: &TableWithJoins,
        named: &mut Vec<(String, u64)>,
    ) -> ExtentFlow {
        let mut from = from.joined(self.factor(&table.relation, named)?);
        for join in &table.joins {
            from = from.joined(self.factor(&join.relation, named)?).checked()?;
        }
        ControlFlow::Continue(from)
    }

    /// One relation of a FROM, whose name `named` gets with the width of its rows.
    fn factor(&mut self, factor: &TableFactor, named: &mut Vec<(String, u64)>) -> ExtentFlow {
        let (extent, name) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                (self.table(name), alias_name(alias.as_ref()).or_else(|| last_name(name)))
            }
            TableFactor::Derived { subquery, alias, .. } => {
                (self.query(subquery)?, alias_name(alias.as_ref()))
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let joined = self.joined(PlanExtent::default(), table_with_joins, named)?;
                (joined, alias_name(alias.as_ref()))
            }
            TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => {
                (self.factor(table, named)?, None)
            }
            _ => (PlanExtent::of_table(1), None),
        };
        named.extend(name.map(|name| (name, extent.width)));
        ControlFlow::Continue(extent)
    }

    /// A CTE, a table or a view.
    fn table(&self, name: &ObjectName) -> PlanExtent {
        let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(normalized).collect();
        let cte = match parts.as_slice() {
            [name] => self.ctes.iter().rev().find(|(known, _)| known == name).map(|(_, extent)| *extent),
            _ => None,
        };
        cte.or_else(|| self.tables.0.get(&parts).copied()).unwrap_or(PlanExtent::of_table(1))
    }

    /// The queries within expressions. With `has_tables` also tables that no FROM of a counted SELECT names.
    fn expressions(&mut self, part: &impl Visit, has_tables: bool) -> ExtentFlow {
        let mut within =
            ExpressionCounter { counter: self, found: PlanExtent::default(), has_tables, depth: 0 };
        part.visit(&mut within)?;
        ControlFlow::Continue(within.found)
    }
}

/// Counts the outermost queries of a part of a statement.
struct ExpressionCounter<'a, 'b> {
    counter: &'a mut ExtentCounter<'b>,
    found: PlanExtent,
    has_tables: bool,
    /// Counted queries and tables around the visited part.
    depth: usize,
}

impl Visitor for ExpressionCounter<'_, '_> {
    type Break = String;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        if self.depth == 0 {
            self.found = self.found.below(self.counter.query(query)?);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<String> {
        if self.depth == 0 && self.has_tables && is_read(factor) {
            self.found = self.found.joined(self.counter.factor(factor, &mut Vec::new())?);
        }
        self.depth += usize::from(is_read(factor));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<String> {
        self.depth -= usize::from(is_read(factor));
        ControlFlow::Continue(())
    }
}

/// True for a relation of a FROM. Others hold relations or expressions.
const fn is_read(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { args: None, .. } | TableFactor::Derived { .. })
}

/// The columns of an item of a SELECT.
fn width(item: &SelectItem, all: u64, named: &[(String, u64)]) -> u64 {
    match item {
        SelectItem::Wildcard(_)
        | SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(_), _) => all,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            let found = last_name(name).and_then(|name| named.iter().find(|(known, _)| *known == name));
            found.map_or(all, |(_, width)| *width)
        }
        SelectItem::ExprWithAliases { aliases, .. } => aliases.len() as u64,
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => 1,
    }
}

fn alias_name(alias: Option<&TableAlias>) -> Option<String> {
    alias.map(|alias| normalized(&alias.name))
}

fn last_name(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(normalized)
}

/// A name as the planner compares it.
fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    /// The error for a statement over a table with 60 columns, `t`, and a view of 100 relations, `v`.
    fn checked(sql: &str) -> Result<()> {
        let mut tables = NamedExtents::default();
        tables.insert(&TableReference::bare("t"), PlanExtent::of_table(60));
        tables.insert(
            &TableReference::partial("s", "v"),
            PlanExtent { relations: 100, columns: 200, width: 1, levels: 1 },
        );
        check(&DFParser::parse_sql(sql).unwrap().pop_front().unwrap(), &tables)
    }

    fn refused(sql: &str) -> String {
        checked(sql).unwrap_err().to_string()
    }

    /// CTEs that each name the one before twice.
    fn doubled(count: usize, end: &str) -> String {
        let next = |at: usize| format!(", a{} AS (SELECT x.n FROM a{at} x, a{at} y)", at + 1);
        let ctes = (0..count).map(next).collect::<Vec<_>>().concat();
        format!("WITH a0 AS (SELECT 1 n){ctes} {}", end.replace("LAST", &format!("a{count}")))
    }

    #[test]
    fn ctes_are_counted_wherever_they_are_named() {
        checked(&doubled(8, "SELECT count(*) FROM LAST")).unwrap();
        let error = refused(&doubled(23, "SELECT count(*) FROM LAST"));
        assert!(
            error.contains("relations or more, each CTE and view counted wherever it is named"),
            "{error}"
        );
        for end in [
            "SELECT 1 WHERE 1 IN (SELECT n FROM LAST)",
            "SELECT 1 ORDER BY (SELECT max(n) FROM LAST)",
            "SELECT 1 LIMIT (SELECT max(n) FROM LAST)",
            "SELECT * FROM t JOIN t u ON EXISTS (SELECT 1 FROM LAST)",
            "SELECT * FROM (t JOIN t u ON EXISTS (SELECT 1 FROM LAST))",
            "SELECT * FROM generate_series(1, (SELECT max(n) FROM LAST))",
            "SELECT * FROM t, LATERAL (SELECT * FROM LAST) x",
            "VALUES ((SELECT max(n) FROM LAST))",
            "SELECT 1 UNION ALL SELECT n FROM LAST",
            "(SELECT * FROM (SELECT * FROM LAST))",
            "SELECT sum((SELECT max(n) FROM LAST)) OVER (ORDER BY 1)",
        ] {
            let sql = doubled(23, end);
            for sql in [sql.clone(), format!("EXPLAIN {sql}"), format!("CREATE VIEW w AS {sql}")] {
                assert!(refused(&sql).contains("relations"), "{sql}");
            }
        }
    }

    #[test]
    fn a_name_means_its_nearest_cte() {
        let sql =
            "WITH v AS (SELECT 1 n) SELECT * FROM v, (WITH v AS (SELECT * FROM v, v w) SELECT * FROM v) x";
        checked(sql).unwrap();
        // A quoted name of other letters is not the CTE.
        let twice = |name: &str| doubled(9, &format!("SELECT * FROM {name} x, {name} y"));
        checked(&twice("\"A9\"")).unwrap();
        assert!(refused(&twice("\"a9\"")).contains("relations"));
        assert!(refused(&twice("A9")).contains("relations"));
    }

    #[test]
    fn views_and_unions_are_counted() {
        let reads = |count: usize| vec!["SELECT * FROM s.v"; count].join(" UNION ALL ");
        checked(&reads(15)).unwrap();
        assert!(
            refused(&reads(30)).contains("the statement reads 2020 relations or more"),
            "{}",
            refused(&reads(30))
        );
        assert!(refused(&vec!["SELECT 1"; 10_000].join(" UNION ALL ")).contains("relations"));
    }

    #[test]
    fn levels_are_counted() {
        let chain = |count: usize| {
            let next = |at: usize| format!(", a{} AS (SELECT n + 1 n FROM a{at})", at + 1);
            format!(
                "WITH a0 AS (SELECT 1 n){} SELECT * FROM a{count}",
                (0..count).map(next).collect::<Vec<_>>().concat()
            )
        };
        let joins = |count: usize| format!("SELECT 1 FROM t{}", " JOIN t USING (x)".repeat(count));
        let conditions =
            |count: usize| format!("SELECT 1 WHERE {}", vec!["EXISTS (SELECT 1)"; count].join(" AND "));
        let sets = |count: usize| vec!["SELECT 1"; count].join(" EXCEPT ");
        for statement in [chain, joins, conditions, sets] as [fn(usize) -> String; 4] {
            checked(&statement(90)).unwrap();
            assert!(
                refused(&statement(110)).contains("SELECTs and joins above each other"),
                "{}",
                statement(3)
            );
        }
        checked(&vec!["SELECT 1"; 1_000].join(" UNION ALL ")).unwrap();
    }

    #[test]
    fn the_columns_of_products_are_counted() {
        let product = |count: usize| {
            let tables: Vec<String> = (0..count).map(|at| format!("t t{at}")).collect();
            format!("SELECT t0.* FROM {}", tables.join(", "))
        };
        checked(&product(90)).unwrap();
        let wide =
            format!("SELECT * FROM ({0}) a, ({0}) b, ({0}) c, ({0}) d", product(90).replace("t0.*", "*"));
        assert!(refused(&wide).contains("columns"), "{}", refused(&wide));
        // Rows that get wider with every level.
        let wide: String =
            (0..14).fold("SELECT * FROM t".to_owned(), |sql, _| format!("SELECT *, * FROM ({sql}) x"));
        assert!(refused(&format!("{wide}, t a, t b, t c")).contains("columns"));
        // One table of several is as wide as it is.
        let narrow =
            (0..12).fold("SELECT * FROM t".to_owned(), |sql, _| format!("SELECT x.* FROM ({sql}) x, t y"));
        checked(&narrow).unwrap();
    }

    #[test]
    fn a_recursive_cte_has_the_columns_of_its_first_rows() {
        let names: Vec<String> = (0..90).map(|at| format!("r r{at}")).collect();
        let recursive = |table: &str| {
            let recursive = format!("SELECT r0.* FROM {}", names.join(", "));
            format!(
                "WITH RECURSIVE r AS (SELECT * FROM {table} UNION ALL {recursive}) SELECT * FROM r a, r b, r c, r d, r e"
            )
        };
        checked(&recursive("u")).unwrap();
        assert!(refused(&recursive("t")).contains("columns"));
    }
}
