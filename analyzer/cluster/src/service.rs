//! The calls that scheduler and executors answer, as actions of Arrow Flight, and statements, whose rows a ticket gets.

use std::pin::Pin;

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::{Stream, stream};
use tonic::{Request, Response, Status, Streaming};

/// A stream of replies.
pub(crate) type ReplyStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Largest call.
const MAX_BYTES: usize = 1 << 20;

/// The calls of one kind of process.
#[tonic::async_trait]
pub(crate) trait ClusterCalls: Send + Sync + 'static {
    /// An action by name.
    async fn action(&self, name: &str, body: &[u8]) -> Result<Vec<u8>, Status>;

    /// The rows of a statement.
    async fn rows(&self, _ticket: &[u8]) -> Result<ReplyStream<FlightData>, Status> {
        Err(Status::unimplemented("executors answer no statements: ask the scheduler"))
    }
}

/// The service.
pub(crate) struct ClusterService<C> {
    calls: C,
}

impl<C: ClusterCalls> ClusterService<C> {
    pub(crate) const fn new(calls: C) -> Self {
        Self { calls }
    }

    pub(crate) fn into_server(self) -> FlightServiceServer<Self> {
        FlightServiceServer::new(self).max_decoding_message_size(MAX_BYTES)
    }
}

fn unknown<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("this is no server of Flight SQL: see `stallmap serve`"))
}

#[tonic::async_trait]
impl<C: ClusterCalls> FlightService for ClusterService<C> {
    type HandshakeStream = ReplyStream<HandshakeResponse>;
    type ListFlightsStream = ReplyStream<FlightInfo>;
    type DoGetStream = ReplyStream<FlightData>;
    type DoPutStream = ReplyStream<PutResult>;
    type DoExchangeStream = ReplyStream<FlightData>;
    type DoActionStream = ReplyStream<arrow_flight::Result>;
    type ListActionsStream = ReplyStream<ActionType>;

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        Ok(Response::new(self.calls.rows(&request.into_inner().ticket).await?))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let action = request.into_inner();
        let body = self.calls.action(&action.r#type, &action.body).await?.into();
        Ok(Response::new(Box::pin(stream::iter([Ok(arrow_flight::Result { body })]))))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unknown()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        unknown()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        unknown()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unknown()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        unknown()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        unknown()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        unknown()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        unknown()
    }
}
