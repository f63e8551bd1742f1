//! An executor: runs parts of plans, reads captures below its prefix, and says where it listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion_distributed::{DistributedExt as _, Worker, WorkerQueryContext};
use object_store::ObjectStore;
use stallmap::code::ResultCache;
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;
use tokio::time::sleep;
use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use url::Url;

use crate::calls;
use crate::codec::LeafReader;
use crate::error::{ClusterError, ClusterResult};
use crate::messages::{PROBE, REGISTER, SKIPPED, SkippedMessage};
use crate::output;
use crate::prefix::AllowedPrefix;
use crate::service::{ClusterCalls, ClusterService};
use crate::skips::SkipBook;
use crate::transport::{CertificateArgs, ClusterChannels, SecurityArgs};

/// Pause between two signs of life.
const SIGN: Duration = Duration::from_secs(2);
/// Bytes that must fit into the folder for temporary files.
const FREE_BYTES: usize = 1 << 20;
const MIB: usize = 1 << 20;

/// `stallmap-cluster executor`
#[derive(Args, Debug)]
pub(crate) struct ExecutorArgs {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: String,
    /// Folder or URL. Captures elsewhere are not read
    #[arg(long, value_name = "FOLDER|URL")]
    prefix: String,
    /// Address to listen on
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7272")]
    listen: SocketAddr,
    /// Name and port by which the scheduler and other executors reach this one [default: the address of --listen]
    #[arg(long, value_name = "HOST:PORT")]
    name: Option<String>,
    /// Memory of a query, in MiB. Temporary files are in TMPDIR
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    memory: usize,
    #[command(flatten)]
    certificate: CertificateArgs,
    #[command(flatten)]
    security: SecurityArgs,
}

/// Runs until it is ended.
pub(crate) async fn run(args: ExecutorArgs) -> ClusterResult<()> {
    let channels = ClusterChannels::new(&args.security)?;
    let prefix = AllowedPrefix::new(&args.prefix)?;
    let mut server = args.certificate.server(args.listen)?;
    let name = args.name.clone().unwrap_or_else(|| args.listen.to_string());
    let url = Url::parse(&format!("{}://{name}", args.certificate.scheme()))
        .map_err(|error| ClusterError::message(format!("`{name}` is not HOST:PORT: {error}")))?;
    let skips = Arc::new(SkipBook::default());
    let resources = SessionResources {
        cache: ResultCache::of_environment(|name| std::env::var_os(name).map(Into::into)),
        memory_bytes: Some(args.memory * MIB),
        ..SessionResources::NONE
    };
    let state = Arc::new(Session::without_rows_with(&resources)?.context().state());
    let (own, book) = (Arc::clone(&state), Arc::clone(&skips));
    let leaves = LeafReader { state: own, prefix, resources: resources.clone(), skips: book };
    let worker = worker(&resources, &state, leaves, channels.clone())?;
    let calls = ClusterService::new(ExecutorCalls { skips });
    let token = channels.token();
    let server = server
        .add_service(InterceptedService::new(worker.into_worker_server(), token.clone()))
        .add_service(InterceptedService::new(calls.into_server(), token))
        .serve(args.listen);
    output::note(format_args!("executor listens on {}", args.listen));
    tokio::select! {
        ended = server => ended.map_err(|error| ClusterError::from(error).hint("is the address free?")),
        () = register(&channels, &args.scheduler, &url) => Ok(()),
    }
}

/// Says again and again where this executor listens, while it can work.
async fn register(channels: &ClusterChannels, scheduler: &str, url: &Url) {
    let mut last = String::new();
    loop {
        let outcome = match can_work() {
            Ok(()) => match channels.url(scheduler) {
                Ok(scheduler) => {
                    calls::action(channels, &scheduler, REGISTER, url.as_str().as_bytes()).await.map(drop)
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let now =
            outcome.map_or_else(|error| format!("not registered: {error}"), |()| "registered".to_owned());
        if now != last {
            output::note(&now);
            last = now;
        }
        sleep(SIGN).await;
    }
}

/// An error if temporary files cannot be written.
fn can_work() -> ClusterResult<()> {
    let written =
        tempfile::tempfile().and_then(|mut file| std::io::Write::write_all(&mut file, &vec![1; FREE_BYTES]));
    written.map_err(|error| {
        let folder = std::env::temp_dir();
        ClusterError::message(format!("temporary files cannot be written to `{}`: {error}", folder.display()))
    })
}

/// The engine's worker, with stallmap's functions and no way to read files but by leaves.
fn worker(
    resources: &SessionResources,
    functions: &Arc<SessionState>,
    leaves: LeafReader,
    channels: ClusterChannels,
) -> ClusterResult<Worker> {
    let functions = Arc::clone(functions);
    let runtime = stallmap_tables::pool::runtime(resources.memory_bytes)?;
    let runtime = RuntimeEnvBuilder::from_runtime_env(&runtime)
        .with_object_store_registry(Arc::new(NoObjectStores))
        .build_arc()?;
    let session = move |query: WorkerQueryContext| {
        let state = session_state(query, &functions, leaves.clone(), channels.clone());
        async move { Ok(state) }
    };
    Ok(Worker::from_session_builder(session).with_runtime_env(runtime))
}

fn session_state(
    query: WorkerQueryContext,
    functions: &SessionState,
    leaves: LeafReader,
    channels: ClusterChannels,
) -> SessionState {
    let fleet = stallmap_fleet::functions().into_iter().map(Arc::new);
    query
        .builder
        .with_scalar_functions(functions.scalar_functions().values().cloned().chain(fleet).collect())
        .with_aggregate_functions(functions.aggregate_functions().values().cloned().collect())
        .with_window_functions(functions.window_functions().values().cloned().collect())
        .with_distributed_user_codec(leaves)
        .with_distributed_channel_resolver(channels)
        .build()
}

/// Plans come from the scheduler. They read captures by leaves, and no files.
#[derive(Debug)]
struct NoObjectStores;

impl ObjectStoreRegistry for NoObjectStores {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        exec_err!("an executor reads captures below its prefix, not `{url}`")
    }
}

/// The calls that an executor answers.
struct ExecutorCalls {
    skips: Arc<SkipBook>,
}

#[tonic::async_trait]
impl ClusterCalls for ExecutorCalls {
    async fn action(&self, name: &str, body: &[u8]) -> Result<Vec<u8>, Status> {
        match name {
            PROBE => can_work().map(|()| Vec::new()).map_err(|error| error.status()),
            SKIPPED => {
                let query = String::from_utf8_lossy(body);
                let message = SkippedMessage { reasons: self.skips.of_query(&query).all(), found: 0 };
                Ok(prost::Message::encode_to_vec(&message))
            }
            _ => Err(Status::unimplemented(format!("an executor knows no `{name}`"))),
        }
    }
}
