//! Calls to other processes.

use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightData, Ticket};
use prost::Message as _;
use tokio::time::timeout;
use tonic::Streaming;
use url::Url;

use crate::error::{ClusterError, ClusterResult};
use crate::messages::ClusterQuery;
use crate::transport::ClusterChannels;

/// Maximum time of a small call.
const SOON: Duration = Duration::from_secs(10);

/// Calls an action, whose answer comes soon or not at all.
pub(crate) async fn action(
    channels: &ClusterChannels,
    url: &Url,
    name: &str,
    body: &[u8],
) -> ClusterResult<Vec<u8>> {
    let mut client = FlightServiceClient::new(channels.channel(url)?);
    let action = Action { r#type: name.to_owned(), body: body.to_vec().into() };
    let answer = async {
        let mut replies = client.do_action(action).await?.into_inner();
        replies.message().await
    };
    let silent = |_| ClusterError::message(format!("{url} does not answer"));
    let reply = timeout(SOON, answer).await.map_err(silent)?.map_err(ClusterError::from)?;
    Ok(reply.map(|reply| reply.body.to_vec()).unwrap_or_default())
}

/// The rows of a statement, then a message without rows: the captures that were skipped.
pub(crate) async fn rows(
    channels: &ClusterChannels,
    url: &Url,
    query: &ClusterQuery,
) -> ClusterResult<Streaming<FlightData>> {
    let mut client = FlightServiceClient::new(channels.channel(url)?).max_decoding_message_size(usize::MAX);
    let ticket = Ticket { ticket: query.encode_to_vec().into() };
    Ok(client.do_get(ticket).await?.into_inner())
}
