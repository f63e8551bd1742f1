//! Connections: a token in every call, TLS, and an end for peers that are silent.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use datafusion::error::{DataFusionError, Result};
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use ring::hmac;
use tonic::body::Body;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};
use tower::ServiceBuilder;
use url::Url;

use crate::error::{ClusterError, ClusterResult};

/// The variable with the token.
const TOKEN: &str = "STALLMAP_CLUSTER_TOKEN";
/// The variable with the file of the authority's certificate.
const CA: &str = "STALLMAP_CLUSTER_CA";
/// Fewest characters of a token.
const MIN_TOKEN: usize = 16;
/// The header with the token.
const AUTHORIZATION: &str = "authorization";
/// A peer that does not answer for twice this time is lost.
const ALIVE: Duration = Duration::from_secs(10);
/// Maximum time to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// The token and the certificates of a process.
#[derive(Args, Clone, Debug)]
pub(crate) struct SecurityArgs {
    /// File with the token that all processes of the cluster share, of 16 characters or more [default: the variable
    /// STALLMAP_CLUSTER_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate of the authority that signed the certificates of scheduler and executors (PEM). Connections use TLS
    /// [default: the file in the variable STALLMAP_CLUSTER_CA, if it is set]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// The certificate of a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct CertificateArgs {
    /// Certificate of this process (PEM). Without one it listens on loopback addresses only
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl CertificateArgs {
    /// A server with or without TLS. Without it, only for addresses of this machine.
    pub(crate) fn server(&self, address: SocketAddr) -> ClusterResult<Server> {
        let server = Server::builder()
            .http2_keepalive_interval(Some(ALIVE))
            .http2_keepalive_timeout(Some(ALIVE))
            .tcp_nodelay(true);
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let identity = Identity::from_pem(read(cert)?, read(key)?);
                Ok(server.tls_config(ServerTlsConfig::new().identity(identity))?)
            }
            _ if address.ip().is_loopback() => Ok(server),
            _ => Err(ClusterError::message(format!("{address} is open to other machines and needs TLS"))
                .hint("give --cert and --key, and --ca to all other processes")),
        }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.cert.is_some() { "https" } else { "http" }
    }
}

fn read(path: &Path) -> ClusterResult<Vec<u8>> {
    fs::read(path)
        .map_err(|error| ClusterError::message(format!("file `{}` cannot be read: {error}", path.display())))
}

/// The token: shown in calls to other processes, and demanded from their calls.
#[derive(Clone)]
pub(crate) struct ClusterToken {
    header: MetadataValue<Ascii>,
    key: hmac::Key,
    tag: hmac::Tag,
}

impl ClusterToken {
    fn new(text: &str) -> ClusterResult<Self> {
        if text.len() < MIN_TOKEN {
            return Err(ClusterError::message(format!("the token has fewer than {MIN_TOKEN} characters")));
        }
        let wrong = |_| ClusterError::message("the token has characters that no header can hold");
        let header: MetadataValue<Ascii> = format!("Bearer {text}").parse().map_err(wrong)?;
        let random = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new());
        let key = random.map_err(|_| ClusterError::message("the system gives no random numbers"))?;
        let tag = hmac::sign(&key, header.as_bytes());
        Ok(Self { header, key, tag })
    }
}

/// Demands the token, in constant time.
impl Interceptor for ClusterToken {
    fn call(&mut self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        let shown = request.metadata().get(AUTHORIZATION).map(MetadataValue::as_bytes).unwrap_or_default();
        match hmac::verify(&self.key, shown, self.tag.as_ref()) {
            Ok(()) => Ok(request),
            Err(_) => Err(Status::unauthenticated(format!(
                "the token is wrong or missing: see {TOKEN} and --token-file"
            ))),
        }
    }
}

/// The connections to other processes, by URL.
#[derive(Clone)]
pub(crate) struct ClusterChannels {
    token: ClusterToken,
    tls: Option<ClientTlsConfig>,
    open: Arc<Mutex<HashMap<Url, BoxCloneSyncChannel>>>,
}

impl ClusterChannels {
    pub(crate) fn new(args: &SecurityArgs) -> ClusterResult<Self> {
        let missing = || {
            ClusterError::message("the cluster has no token")
                .hint(format!("set {TOKEN}, or name a file with --token-file: openssl rand -hex 32 > token"))
        };
        let text = match &args.token_file {
            Some(path) => String::from_utf8(read(path)?).map_err(|_| missing())?,
            None => std::env::var(TOKEN).map_err(|_| missing())?,
        };
        let of_environment = || std::env::var_os(CA).filter(|path| !path.is_empty()).map(PathBuf::from);
        let tls = match &args.ca.clone().or_else(of_environment) {
            Some(path) => Some(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(path)?))),
            None => None,
        };
        Ok(Self { token: ClusterToken::new(text.trim())?, tls, open: Arc::default() })
    }

    /// The token.
    pub(crate) fn token(&self) -> ClusterToken {
        self.token.clone()
    }

    /// The URL of HOST:PORT.
    pub(crate) fn url(&self, host: &str) -> ClusterResult<Url> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Url::parse(&format!("{scheme}://{host}"))
            .map_err(|error| ClusterError::message(format!("`{host}` is not HOST:PORT: {error}")))
    }

    /// A connection that shows the token. It connects at its first call, and again when it was lost.
    pub(crate) fn channel(&self, url: &Url) -> ClusterResult<BoxCloneSyncChannel> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = open.get(url) {
            return Ok(channel.clone());
        }
        let channel = self.endpoint(url)?.connect_lazy();
        let header = self.token.header.clone();
        let with_token = move |mut request: http::Request<Body>| {
            if let Ok(value) = http::HeaderValue::from_bytes(header.as_bytes()) {
                request.headers_mut().insert(AUTHORIZATION, value);
            }
            request
        };
        let channel =
            BoxCloneSyncChannel::new(ServiceBuilder::new().map_request(with_token).service(channel));
        open.insert(url.clone(), channel.clone());
        Ok(channel)
    }

    /// Forgets a connection.
    pub(crate) fn forget(&self, url: &Url) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(url);
    }

    fn endpoint(&self, url: &Url) -> ClusterResult<Endpoint> {
        let endpoint = Channel::from_shared(url.to_string())
            .map_err(|error| ClusterError::message(format!("`{url}` is no address: {error}")))?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        match &self.tls {
            Some(tls) => Ok(endpoint.tls_config(tls.clone())?),
            None => Ok(endpoint),
        }
    }
}

#[async_trait]
impl ChannelResolver for ClusterChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let channel = self.channel(url).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(create_worker_client(channel))
    }
}
