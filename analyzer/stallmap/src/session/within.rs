//! A session with the names of one capture out of several.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::prelude::SessionContext;

use super::Session;

impl Session {
    /// A session in which unqualified names refer to one of the open captures. It has the tables, the computed views and
    /// the limit of memory of this session. None if no capture has the name.
    pub fn within(&self, capture: &str) -> Option<Self> {
        let open = self.captures.iter().find(|open| open.name == capture)?.clone();
        Some(Self {
            context: SessionContext::new_with_state(self.state_in(capture)),
            captures: vec![open],
            views: self.views.clone(),
            queries: self.queries.clone(),
            // The schema of all captures is more than this capture: no answer depends on it alone.
            is_changed: Arc::new(AtomicBool::new(true)),
            leading: None,
        })
    }
}
