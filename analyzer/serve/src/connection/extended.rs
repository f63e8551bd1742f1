//! Prepared statements: parsed, bound to values, described, run in parts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ParamValues;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::LogicalPlan;
use stallmap::statements;

use super::PostgresConnection;
use super::held::{held, plan_bytes};
use crate::failure::CodedFailure;
use crate::kind::PostgresType;
use crate::message::{BindMessage, ClientMessage, ServerMessage, ValueFormat, nth_format};
use crate::parameter;
use crate::query::{AnswerColumn, QueryFault, RunningQuery, columns, planned, send_columns};
use crate::statement::StatementAction;

/// Most prepared statements of one connection.
const MAX_STATEMENTS: usize = 1_000;
/// Most portals of one connection. Each can hold a query that runs.
const MAX_PORTALS: usize = 32;

/// A prepared statement.
pub(super) struct PreparedQuery {
    action: StatementAction,
    /// The plan of a statement with rows.
    plan: Option<LogicalPlan>,
    columns: Vec<AnswerColumn>,
    /// Each parameter: its type on the wire, and the type that the plan expects.
    parameters: Vec<(PostgresType, Option<DataType>)>,
    _memory: MemoryReservation,
}

/// A statement with values.
pub(super) struct BoundPortal {
    prepared: Arc<PreparedQuery>,
    plan: Option<LogicalPlan>,
    formats: Vec<ValueFormat>,
    /// The rows that are being sent.
    rows: Option<RunningQuery>,
    _memory: MemoryReservation,
}

impl PostgresConnection {
    /// Handles a message of the extended protocol.
    pub(super) async fn prepared(&mut self, request: ClientMessage) -> Result<(), QueryFault> {
        match request {
            ClientMessage::Parse { name, sql, types } => self.parse(name, &sql, &types).await?,
            ClientMessage::Bind(bind) => self.bind(bind)?,
            ClientMessage::DescribeStatement(name) => {
                let prepared = Arc::clone(self.statement(&name)?);
                let types: Vec<u32> = prepared.parameters.iter().map(|(kind, _)| kind.type_id()).collect();
                self.wire.send(&ServerMessage::Parameters(&types));
                self.describe(&prepared, &[]);
            }
            ClientMessage::DescribePortal(name) => {
                let portal = self.portals.get(&name).ok_or_else(|| no_portal(&name))?;
                let (prepared, formats) = (Arc::clone(&portal.prepared), portal.formats.clone());
                self.describe(&prepared, &formats);
            }
            ClientMessage::Execute { portal, most_rows } => self.execute(&portal, most_rows).await?,
            ClientMessage::CloseStatement(name) => {
                self.statements.remove(&name);
                self.wire.send(&ServerMessage::Closed);
            }
            ClientMessage::ClosePortal(name) => {
                self.portals.remove(&name);
                self.wire.send(&ServerMessage::Closed);
            }
            _ => return Err(CodedFailure::protocol("this message is not supported").into()),
        }
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<&Arc<PreparedQuery>, CodedFailure> {
        let missing = || {
            CodedFailure::message(
                "26000",
                format!("no statement is prepared as `{name}`"),
                "prepare it first",
            )
        };
        self.statements.get(name).ok_or_else(missing)
    }

    async fn parse(&mut self, name: String, sql: &str, types: &[u32]) -> Result<(), QueryFault> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("`{name}` is prepared already");
            return Err(CodedFailure::message("42P05", message, "close it first").into());
        }
        self.statements.remove(&name);
        check_count(&self.statements, MAX_STATEMENTS, "prepared statements")?;
        if statements::split(sql).len() > 1 {
            let message = "several statements cannot be prepared as one";
            return Err(CodedFailure::message("42601", message, "prepare each by itself").into());
        }
        let action = self.admitted(sql)?;
        let plan = match &action {
            StatementAction::Rows(sql) => {
                let mut limit = self.limit();
                Some(planned(&self.server, sql, &mut self.wire, &mut limit).await?)
            }
            _ => None,
        };
        let parameters = plan.as_ref().map_or_else(|| Ok(Vec::new()), |plan| parameters(plan, types))?;
        let columns = plan.as_ref().map(columns).unwrap_or_default();
        let bytes = 2 * sql.len() + plan.as_ref().map_or(0, plan_bytes);
        let memory = held(&self.server.session, bytes)?;
        let prepared = PreparedQuery { action, plan, columns, parameters, _memory: memory };
        self.statements.insert(name, Arc::new(prepared));
        self.wire.send(&ServerMessage::Parsed);
        Ok(())
    }

    fn bind(&mut self, bind: BindMessage) -> Result<(), QueryFault> {
        let prepared = Arc::clone(self.statement(&bind.statement)?);
        self.portals.remove(&bind.portal);
        check_count(&self.portals, MAX_PORTALS, "portals")?;
        let (expected, given) = (prepared.parameters.len(), bind.values.len());
        if expected != given {
            return Err(CodedFailure::protocol(format!("{given} values for {expected} parameters")).into());
        }
        let bytes: usize = bind.values.iter().flat_map(|(_, bytes)| bytes).map(|bytes| 2 * bytes.len()).sum();
        // To put values in copies the plan.
        let copied = prepared.plan.as_ref().filter(|_| !bind.values.is_empty()).map_or(0, plan_bytes);
        let memory = held(&self.server.session, bytes.saturating_add(copied))?;
        let values = bind.values.into_iter().zip(&prepared.parameters).enumerate();
        let values = values.map(|(index, ((format, bytes), (kind, expected)))| {
            parameter::value(index + 1, *kind, format, bytes, expected.as_ref())
        });
        let values: Vec<_> = values.collect::<Result<_, CodedFailure>>()?;
        let plan = match prepared.plan.clone() {
            Some(plan) if !values.is_empty() => Some(with_values(plan, values)?),
            plan => plan,
        };
        let portal = BoundPortal { prepared, plan, formats: bind.results, rows: None, _memory: memory };
        self.portals.insert(bind.portal, portal);
        self.wire.send(&ServerMessage::Bound);
        Ok(())
    }

    fn describe(&mut self, prepared: &PreparedQuery, formats: &[ValueFormat]) {
        if prepared.plan.is_some() {
            send_columns(&mut self.wire, &prepared.columns, |index| nth_format(formats, index));
        } else {
            self.wire.send(&ServerMessage::NoData);
        }
    }

    async fn execute(&mut self, name: &str, most_rows: usize) -> Result<(), QueryFault> {
        // A portal that fails is gone.
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        match portal.prepared.action.clone() {
            StatementAction::Empty => self.wire.send(&ServerMessage::Empty),
            StatementAction::Done(tag, effect) => self.done(tag, &effect),
            StatementAction::Rows(sql) => {
                let is_suspended = self.run(&mut portal, &sql, most_rows).await?;
                let count = portal.rows.as_ref().map_or(0, |rows| rows.count);
                let done = ServerMessage::Done(format!("SELECT {count}").into());
                self.wire.send(if is_suspended { &ServerMessage::Suspended } else { &done });
            }
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Sends rows of a portal. True if rows may be left.
    async fn run(
        &mut self,
        portal: &mut BoundPortal,
        sql: &str,
        most_rows: usize,
    ) -> Result<bool, QueryFault> {
        let mut limit = self.limit();
        let session = &self.server.session;
        if let Some(plan) = portal.plan.take() {
            let columns = portal.prepared.columns.iter().enumerate();
            let types = columns.map(|(index, (_, column))| (*column, nth_format(&portal.formats, index)));
            let types = types.collect();
            portal.rows = Some(RunningQuery::start(&self.server, sql, plan, types));
        }
        match &mut portal.rows {
            Some(rows) => rows.send(session, most_rows, &mut self.wire, &mut limit).await,
            None => Ok(false),
        }
    }
}

fn no_portal(name: &str) -> CodedFailure {
    CodedFailure::message("34000", format!("no portal is named `{name}`"), "bind a prepared statement first")
}

fn check_count<T>(names: &HashMap<String, T>, most: usize, noun: &str) -> Result<(), CodedFailure> {
    if names.len() < most {
        return Ok(());
    }
    let message = format!("the connection has {most} {noun}");
    Err(CodedFailure::message("54000", message, "close some, or DEALLOCATE ALL"))
}

/// The parameters of a plan by number.
fn parameters(
    plan: &LogicalPlan,
    declared: &[u32],
) -> Result<Vec<(PostgresType, Option<DataType>)>, CodedFailure> {
    let wrong = |name: &str| {
        CodedFailure::message("42P02", format!("`{name}` is not a parameter"), "use $1, $2, ... up to $999")
    };
    let known = plan.get_parameter_types().map_err(|_| wrong("?"))?;
    let mut numbered = BTreeMap::new();
    for (name, expected) in BTreeMap::from_iter(known) {
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let number = number.filter(|number| (1..1_000).contains(number)).ok_or_else(|| wrong(&name))?;
        numbered.insert(number, expected);
    }
    let count = numbered.keys().copied().max().unwrap_or(0).max(declared.len());
    let parameter = |number: usize| {
        let expected = numbered.remove(&number).flatten();
        let declared = declared.get(number - 1).copied().unwrap_or(0);
        (parameter::kind(declared, expected.as_ref()), expected)
    };
    Ok((1..=count).map(parameter).collect())
}

/// A plan with the values of its parameters.
fn with_values(
    plan: LogicalPlan,
    values: Vec<datafusion::common::ScalarValue>,
) -> Result<LogicalPlan, CodedFailure> {
    plan.with_param_values(ParamValues::from(values)).map_err(|error| {
        let message = format!("the values do not fit: {}", error.strip_backtrace());
        CodedFailure::message("22000", message, "write a cast: CAST($1 AS BIGINT)")
    })
}
