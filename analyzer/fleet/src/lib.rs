//! A fleet: many captures as one database. Each table and view has the rows of all captures, behind columns that say
//! which capture they are of.
//!
//! ```text
//! folders, prefixes ── find ──> captures ── facts ──> catalog of labels, ranks, hosts, GPUs, times, rows, functions
//! SQL ── table: filters choose captures by the catalog ── leaf: stored rows, or a session of one capture ── union, sums
//! ```
//!
//! Joins within a view never cross captures: each capture plans and runs its own views, from its stored rows if it has
//! some. A leaf needs the address of a capture and a part of a query, nothing else of this process: a [`LeafOrder`] has both
//! for another process.

mod catalog;
mod contents;
mod facts;
mod find;
mod label;
mod leaf;
mod names;
mod order;
mod prune;
mod skipped;
mod stored;
mod table;

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use stallmap::code::ResultCache;
use stallmap::error::AnalyzeError;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap::session::led::LeadingSchema;
use stallmap::session::resources::SessionResources;
use stallmap_schema::capture::error::CaptureError;

use self::catalog::FleetSchema;
use self::facts::CaptureFacts;
pub use self::find::MAX_CAPTURES;
use self::label::LabelOf;
pub use self::leaf::FleetExec;
pub use self::order::LeafOrder;
pub use self::skipped::SkippedCaptures;
use self::stored::StoredCatalog;

/// The schema of a fleet in SQL, and its table of captures.
pub use stallmap::library::FLEET;

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
    #[error("captures below this URL are not listed: `{}`", path.display())]
    Prefix {
        /// The URL.
        path: PathBuf,
    },
    /// A place that was named is not there, or a prefix of a bucket cannot be listed.
    #[error(transparent)]
    Capture(CaptureError),
    /// Folders without captures.
    #[error("no capture is in {}", listed(places))]
    Empty {
        /// The folders.
        places: Vec<PathBuf>,
    },
    /// Every capture is damaged. Each was reported.
    #[error("no capture can be read in {}", listed(places))]
    Unreadable {
        /// The folders.
        places: Vec<PathBuf>,
    },
    /// No capture with the labels that were asked for.
    #[error("no capture in {} has {labels}", listed(places))]
    NoLabel {
        /// The labels.
        labels: String,
        /// The folders.
        places: Vec<PathBuf>,
    },
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
            Self::Prefix { .. } => Some("name the captures, or a prefix as s3://BUCKET/PREFIX"),
            Self::Empty { .. } => Some("name folders or prefixes with .stallmap files, or captures"),
            Self::Unreadable { .. } => Some("`stallmap check NAME.stallmap` lists the errors of one"),
            Self::NoLabel { .. } => {
                Some("`stallmap sql --over FOLDER -c 'SELECT capture, labels FROM fleet'` lists labels")
            }
            Self::TooMany => Some("name a folder below"),
            Self::Folder { .. } => Some("name the captures and folders that can be read"),
            Self::Analyze(_) | Self::Capture(_) => None,
        }
    }
}

/// Places for a message, each between quotes, in one line.
fn listed(places: &[PathBuf]) -> String {
    let quoted = |place: &PathBuf| format!("`{}`", place.display().to_string().escape_debug());
    places.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// An open fleet.
pub struct CaptureFleet {
    /// A session whose names without schema are the tables and views of all captures.
    pub session: Session,
    /// Number of captures found.
    pub found: usize,
    /// Captures that cannot be read.
    pub skipped: Arc<SkippedCaptures>,
    facts: AllFacts,
}

/// Opens the captures in folders, below prefixes, and by name. One that cannot be read is skipped, and reported by `say`.
///
/// # Errors
/// Fails if a folder cannot be listed, or if there is no capture.
pub fn open(
    places: &[CaptureLocation],
    resources: &SessionResources,
    say: impl Fn(&str, &str) + Send + Sync + 'static,
) -> Result<CaptureFleet, FleetError> {
    open_with(places, &[], resources, say)
}

/// The same, of the captures with these labels: keys and values.
///
/// # Errors
/// Fails as [`open`], and if no capture has the labels.
pub fn open_with(
    places: &[CaptureLocation],
    labels: &[(String, String)],
    resources: &SessionResources,
    say: impl Fn(&str, &str) + Send + Sync + 'static,
) -> Result<CaptureFleet, FleetError> {
    let captures = find::captures(places)?;
    let skipped = Arc::new(SkippedCaptures::new(say));
    let stored = StoredCatalog::from_cache(&resources.cache, places);
    let mut facts = facts::read_all(captures, &stored, &skipped);
    stored.store(&facts);
    let typed = || places.iter().map(|place| place.to_path_buf()).collect();
    if skipped.count() == facts.len() {
        return Err(FleetError::Unreadable { places: typed() });
    }
    // Labels of captures that cannot be read are not known.
    let found = facts.len();
    facts.retain(|facts| labels.iter().all(|(key, value)| facts.labels.get(key) == Some(value)));
    if facts.is_empty() {
        let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
        return Err(FleetError::NoLabel { labels: labels.collect::<Vec<_>>().join(", "), places: typed() });
    }
    let facts = Arc::new(facts);
    let resources_of_all = SessionResources { cache: ResultCache::NONE, ..resources.clone() };
    let mut session = Session::without_rows_with(&resources_of_all)?;
    for function in functions() {
        session.context().register_udf(function);
    }
    let state = Arc::downgrade(&session.context().state_ref());
    let state = move || state.upgrade().map(|state| state.read().clone());
    let known = Session::without_rows()?;
    let (tables, views) = (names::tables(&known, &facts), names::views()?);
    let schema = Arc::new(FleetSchema::new(
        known,
        Arc::clone(&facts),
        resources.clone(),
        (Arc::clone(&skipped), Box::new(state)),
    ));
    session.lead_with(LeadingSchema { name: FLEET, schema, tables, views })?;
    Ok(CaptureFleet { session, found, skipped, facts })
}

impl CaptureFleet {
    /// Number of captures with the labels that were asked for, without those that were skipped so far.
    pub fn read_count(&self) -> usize {
        self.facts.iter().filter(|facts| self.skipped.reason(&facts.capture.name).is_none()).count()
    }

    /// The location of a capture, by its name in the column `capture`.
    pub fn location(&self, name: &str) -> Option<CaptureLocation> {
        let facts = self.facts.iter().find(|facts| facts.capture.name == name);
        facts.map(|facts| facts.capture.location.clone())
    }
}

/// The functions of fleets, next to those of sessions.
pub fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(LabelOf::default())]
}

/// A capture that was found: its address, and its name in the column `capture`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundCapture {
    pub(crate) location: CaptureLocation,
    /// The version of its content, if it is known without reading it.
    pub(crate) version: Option<String>,
    pub(crate) name: String,
}

/// The facts about all captures of a fleet, in their order.
pub(crate) type AllFacts = Arc<Vec<CaptureFacts>>;
