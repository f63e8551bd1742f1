//! A fleet: many captures as one database. Each table and view has the rows of all captures, behind columns that say
//! which capture they are of.
//!
//! ```text
//! folders ── find ──> captures ── facts ──> catalog of labels, ranks, hosts, GPUs, times
//! SQL ── table: filters on facts choose captures ── leaf: a session of one capture runs its part ── union, aggregates
//! ```
//!
//! Joins within a view never cross captures: each capture plans and runs its own views, from its stored rows if it has
//! some. A leaf needs the address of a capture and a part of a query, nothing else of this process.

mod catalog;
mod facts;
mod find;
mod label;
mod leaf;
mod order;
mod skipped;
mod table;

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use stallmap::code::ResultCache;
use stallmap::error::AnalyzeError;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;

use self::catalog::FleetSchema;
use self::facts::CaptureFacts;
pub use self::find::MAX_CAPTURES;
use self::label::LabelOf;
pub use self::leaf::FleetExec;
pub use self::order::LeafOrder;
pub use self::skipped::SkippedCaptures;

/// The schema of a fleet in SQL, and its table of captures.
pub const FLEET: &str = "fleet";

/// Why a fleet cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A folder cannot be listed.
    #[error("folder `{}` cannot be read: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A prefix of a server, which has no list.
    #[error("captures below a URL are not listed: `{}`", path.display())]
    Prefix {
        /// The URL.
        path: PathBuf,
    },
    /// Folders without captures.
    #[error("no captures found")]
    Empty,
    /// More captures than a fleet may have.
    #[error("more than {MAX_CAPTURES} captures")]
    TooMany,
    /// The engine cannot start.
    #[error(transparent)]
    Analyze(#[from] AnalyzeError),
}

impl FleetError {
    /// Recommended action.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Prefix { .. } => Some("name the captures"),
            Self::Empty => Some("name folders with .stallmap files, or captures"),
            Self::TooMany => Some("name a folder below"),
            Self::Folder { .. } | Self::Analyze(_) => None,
        }
    }
}

/// An open fleet.
pub struct CaptureFleet {
    /// A session whose names without schema are the tables and views of all captures.
    pub session: Session,
    /// Number of captures found.
    pub found: usize,
    /// Captures that cannot be read.
    pub skipped: Arc<SkippedCaptures>,
}

/// Opens the captures in folders, and captures by name. One that cannot be read is skipped, and reported by `say`.
///
/// # Errors
/// Fails if a folder cannot be listed, or if there is no capture.
pub fn open(
    places: &[CaptureLocation],
    resources: &SessionResources,
    say: impl Fn(&str, &str) + Send + Sync + 'static,
) -> Result<CaptureFleet, FleetError> {
    let captures = find::captures(places)?;
    let found = captures.len();
    let skipped = Arc::new(SkippedCaptures::new(say));
    let facts = Arc::new(facts::read_all(captures, &skipped));
    let resources_of_all = SessionResources { cache: ResultCache::NONE, ..resources.clone() };
    let mut session = Session::without_rows_with(&resources_of_all)?;
    functions().into_iter().for_each(|function| session.context().register_udf(function));
    let schema = FleetSchema::new(Session::without_rows()?, facts, resources.clone(), Arc::clone(&skipped));
    session.lead_with(FLEET, Arc::new(schema))?;
    Ok(CaptureFleet { session, found, skipped })
}

/// The functions of fleets, next to those of sessions.
pub fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(LabelOf::default())]
}

/// A capture that was found: its address, and its name in the column `capture`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundCapture {
    pub(crate) location: CaptureLocation,
    pub(crate) name: String,
}

/// The facts about all captures of a fleet, in their order.
pub(crate) type AllFacts = Arc<Vec<CaptureFacts>>;
