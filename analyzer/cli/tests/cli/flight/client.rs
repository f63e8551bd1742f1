//! Clients of Flight SQL: the one of the crate `arrow-flight`, on a runtime of its own.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::Schema;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{FlightEndpoint, FlightInfo, Ticket};
use futures::TryStreamExt as _;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A client, with the runtime that it blocks on.
pub(crate) struct FlightTestClient {
    runtime: Runtime,
    pub(crate) inner: FlightSqlServiceClient<Channel>,
}

impl FlightTestClient {
    /// A client that shows no token.
    pub(crate) fn anonymous(port: u16) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Self { runtime, inner: FlightSqlServiceClient::new(channel) }
    }

    /// A client with a token in each request.
    pub(crate) fn connect(port: u16, token: &str) -> Self {
        let mut client = Self::anonymous(port);
        client.inner.set_token(token.to_owned());
        client
    }

    /// A client behind TLS, which knows one certificate.
    pub(crate) fn encrypted(port: u16, token: &str, certificate: CertificateDer<'static>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = versions.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let connect = tower::service_fn(move |_| {
            let connector = connector.clone();
            async move {
                let stream = TcpStream::connect(("127.0.0.1", port)).await?;
                let name = ServerName::try_from("localhost").unwrap();
                Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, stream).await?))
            }
        });
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = runtime.block_on(endpoint.connect_with_connector(connect)).unwrap();
        let mut inner = FlightSqlServiceClient::new(channel);
        inner.set_token(token.to_owned());
        Self { runtime, inner }
    }

    /// Waits for an answer.
    pub(crate) fn wait<T>(
        &mut self,
        ask: impl AsyncFnOnce(&mut FlightSqlServiceClient<Channel>) -> Result<T, FlightError>,
    ) -> Result<T, Status> {
        let (runtime, inner) = (&self.runtime, &mut self.inner);
        runtime.block_on(ask(inner)).map_err(|error| match error {
            FlightError::Tonic(status) => *status,
            other => Status::internal(format!("the client fails: {other}")),
        })
    }

    /// The schema of a statement, and its ticket.
    pub(crate) fn described(&mut self, sql: &str) -> Result<(Schema, Ticket), Status> {
        let info = self.wait(async |client| client.execute(sql.to_owned(), None).await)?;
        Ok((info.clone().try_decode_schema().unwrap(), ticket(info)))
    }

    /// The schema and the rows of a ticket.
    pub(crate) fn fetch(&mut self, ticket: Ticket) -> Result<(Arc<Schema>, Vec<RecordBatch>), Status> {
        self.wait(async |client| {
            let mut stream = client.do_get(ticket).await?;
            let mut batches = Vec::new();
            while let Some(batch) = stream.try_next().await? {
                batches.push(batch);
            }
            Ok((Arc::clone(stream.schema().unwrap()), batches))
        })
    }

    /// The rows of a statement. The schema of the stream is that of the description.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>, Status> {
        let (described, ticket) = self.described(sql)?;
        let (sent, batches) = self.fetch(ticket)?;
        assert_eq!(described, *sent, "{sql}");
        Ok(batches)
    }

    /// The code and the text of a statement that is refused.
    pub(crate) fn refused(&mut self, sql: &str) -> (Code, String) {
        let status = self.query(sql).unwrap_err();
        (status.code(), status.message().to_owned())
    }
}

/// The ticket of an answer that has one endpoint, without another place.
pub(crate) fn ticket(info: FlightInfo) -> Ticket {
    let [FlightEndpoint { ticket, location, .. }] = <[_; 1]>::try_from(info.endpoint).unwrap();
    assert!(location.is_empty());
    ticket.unwrap()
}

/// Batches as CSV, with a header.
pub(crate) fn csv(batches: &[RecordBatch]) -> String {
    let mut bytes = Vec::new();
    let mut writer = arrow::csv::Writer::new(&mut bytes);
    for batch in batches {
        writer.write(batch).unwrap();
    }
    drop(writer);
    String::from_utf8(bytes).unwrap()
}

/// The texts of a column.
pub(crate) fn texts(batches: &[RecordBatch], index: usize) -> Vec<&str> {
    batches
        .iter()
        .flat_map(|batch| {
            batch.column(index).as_any().downcast_ref::<StringArray>().unwrap().iter().flatten()
        })
        .collect()
}
