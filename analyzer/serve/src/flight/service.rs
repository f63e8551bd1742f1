//! Requests of Flight SQL: statements, prepared statements, names, properties.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::failure::CodedFailure;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas,
    CommandGetExportedKeys, CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo,
    CommandGetTableTypes, CommandGetTables, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementQuery, CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage,
    SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use datafusion::logical_expr::LogicalPlan;
use futures::{StreamExt as _, stream};
use prost::Message as _;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use crate::flight::catalog;
use crate::flight::handle::{MAX_VALUE_BYTES, StatementHandle};
use crate::flight::info;
use crate::flight::keys;
use crate::flight::queries::{FlightMessages, FlightQueries, encoded};
use crate::flight::status::{status, unreadable};

/// Messages of an answer, with the reply around it.
type FlightAnswer = Result<Response<FlightMessages>, Status>;
/// The schema of an answer, and the ticket for its rows.
type FlightInfoReply = Result<Response<FlightInfo>, Status>;

/// The service.
pub(crate) struct SessionService {
    queries: Arc<FlightQueries>,
    /// The token that a handshake returns.
    bearer: String,
}

impl SessionService {
    pub(crate) fn new(queries: Arc<FlightQueries>, bearer: String) -> Self {
        Self { queries, bearer }
    }

    /// The schema of a statement, with a ticket.
    async fn statement(
        &self,
        handle: StatementHandle,
        ticket: Bytes,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        let queries = Arc::clone(&self.queries);
        let (_, schema) = self.queries.work(async move { queries.planned(&handle).await }).await?;
        described(&schema, ticket, request)
    }

    /// Rows that are computed whole.
    async fn batch(
        &self,
        work: impl Future<Output = Result<RecordBatch, Status>> + Send + 'static,
    ) -> FlightAnswer {
        let batch = self.queries.work(work).await?;
        Ok(Response::new(encoded(batch.schema(), stream::iter([Ok(batch)]))))
    }
}

/// The reply to a call for a schema and a ticket.
fn described(schema: &Schema, ticket: Bytes, request: Request<FlightDescriptor>) -> FlightInfoReply {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket { ticket });
    let info = FlightInfo::new().with_endpoint(endpoint).with_descriptor(request.into_inner());
    let info = info.try_with_schema(schema).map_err(|error| unreadable("the schema", error))?;
    Ok(Response::new(info))
}

/// The same for a call whose answer has one form.
fn of_command(
    schema: &Schema,
    command: &impl ProstMessageExt,
    request: Request<FlightDescriptor>,
) -> FlightInfoReply {
    described(schema, command.as_any().encode_to_vec().into(), request)
}

fn read(handle: &[u8]) -> Result<StatementHandle, Status> {
    StatementHandle::read(handle).map_err(|refusal| status(&refusal))
}

/// The refusal of a statement that changes something.
fn read_only() -> Status {
    let message = "captures are read only";
    status(&CodedFailure::message("25006", message, "use SELECT, WITH, EXPLAIN, DESCRIBE or SHOW"))
}

/// A schema as bytes.
fn schema_bytes(schema: &Schema) -> Result<Bytes, Status> {
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into();
    message.map(|message| message.0).map_err(|error| unreadable("the schema", error))
}

/// The parameters of a plan by number.
fn parameters(plan: &LogicalPlan) -> Result<Schema, Status> {
    let wrong = |name: &str| {
        let message = format!("`{name}` is not a parameter");
        status(&CodedFailure::message("42P02", message, "use $1, $2, ... up to $999"))
    };
    let mut numbered = BTreeMap::new();
    let known = plan.get_parameter_types().map_err(|_| wrong("?"))?;
    for (name, data_type) in BTreeMap::from_iter(known) {
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<u16>().ok());
        let number = number.filter(|number| (1..1_000).contains(number)).ok_or_else(|| wrong(&name))?;
        numbered.insert(number, Field::new(name, data_type.unwrap_or(DataType::Null), true));
    }
    let count = numbered.keys().copied().max().unwrap_or(0);
    let missing = |number: u16| Field::new(format!("${number}"), DataType::Null, true);
    let fields = (1..=count).map(|number| numbered.remove(&number).unwrap_or_else(|| missing(number)));
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// Values that a client binds, up to their most bytes.
async fn values(mut parts: PeekableFlightDataStream) -> Result<Vec<arrow_flight::FlightData>, Status> {
    let (mut values, mut size_bytes) = (Vec::new(), 0);
    while let Some(part) = parts.next().await {
        let mut part = part?;
        part.flight_descriptor = None;
        if part.data_header.is_empty() {
            continue;
        }
        size_bytes += part.encoded_len();
        if size_bytes > MAX_VALUE_BYTES {
            let message = format!("the values have more than {} KiB", MAX_VALUE_BYTES >> 10);
            return Err(status(&CodedFailure::message("54000", message, "bind one row of shorter values")));
        }
        values.push(part);
    }
    Ok(values)
}

#[tonic::async_trait]
impl FlightSqlService for SessionService {
    type FlightService = Self;

    /// The gate admitted the call. The reply has a token for the next ones.
    async fn do_handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<<Self as FlightService>::HandshakeStream>, Status> {
        let reply = HandshakeResponse { protocol_version: 0, payload: self.bearer.clone().into() };
        let mut response: Response<<Self as FlightService>::HandshakeStream> =
            Response::new(Box::pin(stream::iter([Ok(reply)])));
        let value = MetadataValue::try_from(format!("Bearer {}", self.bearer));
        let value = value.map_err(|error| unreadable("the token", error))?;
        response.metadata_mut().insert("authorization", value);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        let handle = StatementHandle::for_sql(query.query);
        let ticket = TicketStatementQuery { statement_handle: handle.bytes() };
        self.statement(handle, ticket.as_any().encode_to_vec().into(), request).await
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        _request: Request<Ticket>,
    ) -> FlightAnswer {
        Ok(Response::new(self.queries.rows(read(&ticket.statement_handle)?)?))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let (queries, handle) = (Arc::clone(&self.queries), StatementHandle::for_sql(query.query));
        let prepared_statement_handle = handle.bytes();
        self.queries
            .work(async move {
                let (plan, schema) = queries.planned(&handle).await?;
                Ok(ActionCreatePreparedStatementResult {
                    prepared_statement_handle,
                    dataset_schema: schema_bytes(&schema)?,
                    parameter_schema: schema_bytes(&parameters(&plan)?)?,
                })
            })
            .await
    }

    /// The server remembers no prepared statement.
    async fn do_action_close_prepared_statement(
        &self,
        _query: ActionClosePreparedStatementRequest,
        _request: Request<Action>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Binds values. The client gets a new handle, which has them.
    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let mut handle = read(&query.prepared_statement_handle)?;
        handle.values = values(request.into_inner()).await?;
        let (queries, bytes) = (Arc::clone(&self.queries), handle.bytes());
        // Values that do not fit are refused here.
        self.queries.work(async move { queries.planned(&handle).await.map(drop) }).await?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(bytes) })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        let handle = read(&query.prepared_statement_handle)?;
        self.statement(handle, query.as_any().encode_to_vec().into(), request).await
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        _request: Request<Ticket>,
    ) -> FlightAnswer {
        Ok(Response::new(self.queries.rows(read(&query.prepared_statement_handle)?)?))
    }

    async fn do_put_statement_update(
        &self,
        _query: CommandStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_put_prepared_statement_update(
        &self,
        _query: CommandPreparedStatementUpdate,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&query.into_builder().schema(), &query, request)
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, _request: Request<Ticket>) -> FlightAnswer {
        self.batch(async move { catalog::catalogs(query) }).await
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&query.clone().into_builder().schema(), &query, request)
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, _request: Request<Ticket>) -> FlightAnswer {
        let queries = Arc::clone(&self.queries);
        self.batch(async move { catalog::schemas(&queries.session, query) }).await
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&query.clone().into_builder().schema(), &query, request)
    }

    async fn do_get_tables(&self, query: CommandGetTables, _request: Request<Ticket>) -> FlightAnswer {
        let queries = Arc::clone(&self.queries);
        self.batch(async move { catalog::tables(&queries.session, query).await }).await
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&query.into_builder().schema(), &query, request)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _request: Request<Ticket>,
    ) -> FlightAnswer {
        self.batch(async move { catalog::types(query) }).await
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        let schema: SchemaRef = query.clone().into_builder(&info::infos()?).schema();
        of_command(&schema, &query, request)
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, _request: Request<Ticket>) -> FlightAnswer {
        self.batch(async move { Ok(query.into_builder(&info::infos()?).build()?) }).await
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&keys::primary().schema(), &query, request)
    }

    async fn do_get_primary_keys(
        &self,
        _query: CommandGetPrimaryKeys,
        _request: Request<Ticket>,
    ) -> FlightAnswer {
        self.batch(async { Ok(keys::primary()) }).await
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&keys::foreign().schema(), &query, request)
    }

    async fn do_get_exported_keys(
        &self,
        _query: CommandGetExportedKeys,
        _request: Request<Ticket>,
    ) -> FlightAnswer {
        self.batch(async { Ok(keys::foreign()) }).await
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&keys::foreign().schema(), &query, request)
    }

    async fn do_get_imported_keys(
        &self,
        _query: CommandGetImportedKeys,
        _request: Request<Ticket>,
    ) -> FlightAnswer {
        self.batch(async { Ok(keys::foreign()) }).await
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> FlightInfoReply {
        of_command(&keys::foreign().schema(), &query, request)
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        _request: Request<Ticket>,
    ) -> FlightAnswer {
        self.batch(async { Ok(keys::foreign()) }).await
    }

    /// All properties are known from the start.
    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
