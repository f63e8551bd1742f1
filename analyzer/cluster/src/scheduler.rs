//! The scheduler: knows the executors, plans statements, runs them there, and asks again without an executor that is lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use clap::Args;
use futures::future::join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use ring::rand::{SecureRandom as _, SystemRandom};
use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;
use stallmap_fleet::CaptureFleet;
use tonic::Status;
use tonic::service::interceptor::InterceptedService;
use url::Url;

use crate::calls;
use crate::codec::LeafWriter;
use crate::error::{ClusterError, ClusterResult};
use crate::messages::{ClusterQuery, PROBE, REGISTER, SKIPPED, SkippedMessage};
use crate::output;
use crate::planner::{ChosenExecutors, context};
use crate::prefix::AllowedPrefix;
use crate::service::{ClusterCalls, ClusterService, ReplyStream};
use crate::transport::{CertificateArgs, ClusterChannels, SecurityArgs};

/// An executor without a sign of life for this time gets no work.
const SILENT: Duration = Duration::from_secs(30);
/// Maximum executors that are lost in one statement.
const MAX_LOST: usize = 8;
/// Maximum times that a statement is asked again although all executors can work.
const MAX_AGAIN: usize = 2;
/// Words of errors of connections, which say nothing about the statement.
const CONNECTION: [&str; 5] =
    ["h2 protocol error", "http2 error", "transport error", "tcp connect error", "broken pipe"];
/// Maximum bytes of the rows of an answer, which wait until all executors are done.
const MAX_ANSWER: usize = 1 << 30;
const MIB: usize = 1 << 20;

/// `stallmap-cluster scheduler`
#[derive(Args, Debug)]
pub(crate) struct SchedulerArgs {
    /// Folder or URL. Captures elsewhere are not read
    #[arg(long, value_name = "FOLDER|URL")]
    prefix: String,
    /// Address to listen on
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7271")]
    listen: SocketAddr,
    /// Memory of a statement in this process, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
    #[command(flatten)]
    certificate: CertificateArgs,
    #[command(flatten)]
    security: SecurityArgs,
}

/// Runs until it is ended.
pub(crate) async fn run(args: SchedulerArgs) -> ClusterResult<()> {
    let channels = ClusterChannels::new(&args.security)?;
    let prefix = AllowedPrefix::new(&args.prefix)?;
    let mut server = args.certificate.server(args.listen)?;
    let token = channels.token();
    let executors = KnownExecutors { seen: Mutex::default(), channels };
    let calls = SchedulerCalls { prefix, memory_bytes: args.memory * MIB, executors };
    let service = ClusterService::new(calls).into_server();
    let server = server.add_service(InterceptedService::new(service, token)).serve(args.listen);
    output::note(format_args!("scheduler listens on {}", args.listen));
    server.await.map_err(|error| ClusterError::from(error).hint("is the address free?"))
}

/// The executors, with their last sign of life.
struct KnownExecutors {
    seen: Mutex<BTreeMap<Url, Instant>>,
    channels: ClusterChannels,
}

impl KnownExecutors {
    fn add(&self, url: Url) {
        let name = url.to_string();
        if self.seen().insert(url, Instant::now()).is_none() {
            output::note(format_args!("executor {name} is here"));
        }
    }

    fn remove(&self, url: &Url, reason: &str) {
        self.channels.forget(url);
        if self.seen().remove(url).is_some() {
            output::note(format_args!("executor {url} is lost: {reason}"));
        }
    }

    /// Executors that gave a sign of life lately.
    fn alive(&self) -> Vec<Url> {
        let mut seen = self.seen();
        seen.retain(|_, at| at.elapsed() < SILENT);
        seen.keys().cloned().collect()
    }

    /// Asks executors whether they can work. Returns the number of those that cannot.
    async fn probe(&self, executors: &[Url]) -> usize {
        let probe = |url: &Url| {
            let url = url.clone();
            async move {
                let lost = calls::action(&self.channels, &url, PROBE, &[]).await.err()?;
                self.remove(&url, &lost.to_string());
                Some(url)
            }
        };
        join_all(executors.iter().map(probe)).await.into_iter().flatten().count()
    }

    /// The captures that a query skipped.
    async fn skipped(&self, executors: &[Url], query: &str) -> ClusterResult<BTreeMap<String, String>> {
        let asked = executors.iter().map(|url| calls::action(&self.channels, url, SKIPPED, query.as_bytes()));
        let mut all = BTreeMap::new();
        for body in join_all(asked).await {
            let wrong =
                |error| ClusterError::message(format!("an executor's answer cannot be read: {error}"));
            all.extend(SkippedMessage::decode(body?.as_slice()).map_err(wrong)?.reasons);
        }
        Ok(all)
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<Url, Instant>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The calls that a scheduler answers.
struct SchedulerCalls {
    prefix: AllowedPrefix,
    memory_bytes: usize,
    executors: KnownExecutors,
}

/// All rows of a statement.
struct ClusterAnswer {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
    skipped: SkippedMessage,
}

impl SchedulerCalls {
    async fn answer(&self, query: &ClusterQuery) -> ClusterResult<ClusterAnswer> {
        let resources = SessionResources {
            memory_bytes: Some(self.memory_bytes),
            reads_stored: !query.recomputes,
            cost_from: query.cost_from.parse().map_err(|error: String| ClusterError::message(error))?,
            ..SessionResources::NONE
        };
        let fleet = self.open(&query.places, resources.clone()).await?;
        let (mut lost, mut again) = (0, 0);
        loop {
            let executors = self.executors.alive();
            if executors.is_empty() {
                let hint = "start one: stallmap-cluster executor --scheduler HOST:PORT --prefix FOLDER";
                return Err(ClusterError::message("the cluster has no executor").hint(hint));
            }
            let error = match self.attempt(&fleet, &executors, query, &resources).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let now = self.executors.probe(&executors).await;
            lost += now;
            if now == 0 && is_of_connection(&error) {
                again += 1;
            } else if now == 0 {
                return Err(error);
            }
            if lost > MAX_LOST || again > MAX_AGAIN {
                return Err(error);
            }
            output::note(format_args!("asking again without {now} of {} executors", executors.len()));
        }
    }

    /// Opens captures below the prefix.
    async fn open(&self, places: &[String], resources: SessionResources) -> ClusterResult<CaptureFleet> {
        places.iter().try_for_each(|place| self.prefix.check(place))?;
        let places: Vec<CaptureLocation> = places.iter().map(|place| place.as_str().into()).collect();
        let opened =
            tokio::task::spawn_blocking(move || stallmap_fleet::open(&places, &resources, |_, _| ()));
        let fleet = opened.await.map_err(|_| ClusterError::message("the captures cannot be opened"))?;
        fleet.map_err(|error| {
            let hint = error.hint();
            let error = ClusterError::message(error.to_string());
            match hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        })
    }

    /// Runs a statement on executors.
    async fn attempt(
        &self,
        fleet: &CaptureFleet,
        executors: &[Url],
        query: &ClusterQuery,
        resources: &SessionResources,
    ) -> ClusterResult<ClusterAnswer> {
        let id = new_id()?;
        let leaves = LeafWriter { query: id.clone(), resources: resources.clone() };
        let chosen = ChosenExecutors(executors.to_vec());
        let context = context(&fleet.session, chosen, self.executors.channels.clone(), leaves)?;
        let plan = fleet.session.plan(&query.sql).await?;
        Session::check_reads_only(&plan)?;
        let frame = context.execute_logical_plan(plan).await?;
        let mut batches = frame.execute_stream().await?;
        let (schema, mut rows, mut bytes) = (batches.schema(), Vec::new(), 0);
        while let Some(batch) = batches.try_next().await? {
            bytes += batch.get_array_memory_size();
            rows.push(batch);
            if bytes > MAX_ANSWER {
                let error =
                    ClusterError::message(format!("the answer has more than {} MiB", MAX_ANSWER / MIB));
                return Err(error.hint("aggregate, or use LIMIT"));
            }
        }
        let mut reasons = self.executors.skipped(executors, &id).await?;
        reasons.extend(fleet.skipped.all());
        Ok(ClusterAnswer { schema, rows, skipped: SkippedMessage { reasons, found: fleet.found as u64 } })
    }
}

fn is_of_connection(error: &ClusterError) -> bool {
    let text = error.to_string();
    CONNECTION.iter().any(|words| text.contains(words))
}

/// A random id: clients cannot guess those of other queries.
fn new_id() -> ClusterResult<String> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| ClusterError::message("the system gives no random numbers"))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

#[tonic::async_trait]
impl ClusterCalls for SchedulerCalls {
    async fn action(&self, name: &str, body: &[u8]) -> Result<Vec<u8>, Status> {
        if name != REGISTER {
            return Err(Status::unimplemented(format!("a scheduler knows no `{name}`")));
        }
        let url = std::str::from_utf8(body).ok().and_then(|url| Url::parse(url).ok());
        self.executors.add(url.ok_or_else(|| Status::invalid_argument("an executor has no URL"))?);
        Ok(Vec::new())
    }

    async fn rows(&self, ticket: &[u8]) -> Result<ReplyStream<FlightData>, Status> {
        let query = ClusterQuery::decode(ticket)
            .map_err(|_| Status::invalid_argument("the ticket cannot be read"))?;
        let answer = self.answer(&query).await.map_err(|error| error.status())?;
        let skipped =
            FlightData { app_metadata: answer.skipped.encode_to_vec().into(), ..FlightData::default() };
        let rows = FlightDataEncoderBuilder::new()
            .with_schema(answer.schema)
            .build(stream::iter(answer.rows).map(Ok))
            .map_err(|error| Status::internal(error.to_string()));
        Ok(Box::pin(rows.chain(stream::iter([Ok(skipped)]))))
    }
}
