//! The served captures, and their pages, which are made at the first visit.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_report::report::served::{self, ServedPage};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore};

/// Pages that are made at a time.
const MAX_MAKING: usize = 2;
/// Pages in memory.
const MAX_PAGES: usize = 32;

/// The captures of a server.
pub(crate) struct ServedCaptures {
    captures: Vec<Arc<ServedCapture>>,
    /// Threads for queries.
    pub(crate) queries: Handle,
    shared: Arc<CapturesShared>,
}

/// The state that captures share.
struct CapturesShared {
    root: Option<PathBuf>,
    making: Semaphore,
    /// Captures with a page in memory, the newest last.
    made: std::sync::Mutex<VecDeque<Arc<ServedCapture>>>,
}

/// One capture.
pub(crate) struct ServedCapture {
    /// Its name in addresses and in SQL.
    pub(crate) name: String,
    pub(crate) location: CaptureLocation,
    /// Unqualified names refer to it.
    pub(crate) session: Session,
    page: Mutex<Option<Arc<ServedPage>>>,
}

impl ServedCaptures {
    /// The captures of a session, with their files.
    pub(crate) fn new(
        session: &Session,
        captures: &[(Option<String>, CaptureLocation)],
        root: Option<PathBuf>,
        queries: Handle,
    ) -> Self {
        let of = |(name, location): &(Option<String>, CaptureLocation)| {
            let name = name.clone()?;
            let session = session.within(&name)?;
            Some(Arc::new(ServedCapture {
                name,
                location: location.clone(),
                session,
                page: Mutex::default(),
            }))
        };
        let shared =
            CapturesShared { root, making: Semaphore::new(MAX_MAKING), made: std::sync::Mutex::default() };
        Self { captures: captures.iter().filter_map(of).collect(), queries, shared: Arc::new(shared) }
    }

    /// All captures.
    pub(crate) fn captures(&self) -> &[Arc<ServedCapture>] {
        &self.captures
    }

    /// A capture by its name.
    pub(crate) fn capture(&self, name: &str) -> Option<&Arc<ServedCapture>> {
        self.captures.iter().find(|capture| capture.name == name)
    }

    /// The page of a capture. Once begun it is made, even if its client leaves.
    pub(crate) async fn page(&self, capture: &Arc<ServedCapture>) -> Outcome<Arc<ServedPage>> {
        let making = Arc::clone(capture).page(Arc::clone(&self.shared));
        self.queries.spawn(making).await.unwrap_or_else(|_| {
            let hint = "this is a defect: report it with the capture";
            Err(CommandFailure::message(QUERY, "internal error in the page").hint(hint.to_owned()))
        })
    }
}

impl ServedCapture {
    async fn page(self: Arc<Self>, shared: Arc<CapturesShared>) -> Outcome<Arc<ServedPage>> {
        let mut page = self.page.lock().await;
        if let Some(page) = &*page {
            return Ok(Arc::clone(page));
        }
        let _turn = shared.making.acquire().await;
        let made = Arc::new(served::page(&self.session, &self.location, shared.root.as_deref()).await?);
        *page = Some(Arc::clone(&made));
        drop(page);
        shared.remember(self);
        Ok(made)
    }
}

impl CapturesShared {
    /// Forgets the oldest pages, if there are too many.
    fn remember(&self, capture: Arc<ServedCapture>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.push_back(capture);
        if made.len() > MAX_PAGES
            && let Some(oldest) = made.pop_front()
            && let Ok(mut page) = oldest.page.try_lock()
        {
            *page = None;
        }
    }
}
