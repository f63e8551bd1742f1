//! Sessions that another schema leads: a fleet shows the tables and views of its captures in place of the session's own.

use std::sync::Arc;

use datafusion::catalog::SchemaProvider;

use super::every::EVERY;
use super::{CATALOG, Session, TableInfo};
use crate::error::AnalyzeError;
use crate::library::ViewDoc;

/// A schema that takes the place of a session's captures, with what it holds.
pub struct LeadingSchema {
    /// Its name in SQL.
    pub name: &'static str,
    /// Its tables and views.
    pub schema: Arc<dyn SchemaProvider>,
    /// Its tables, in reading order.
    pub tables: Vec<TableInfo>,
    /// Its views, sorted by package and name.
    pub views: Vec<ViewDoc>,
}

/// The names of a schema that leads.
pub(super) struct LeadingNames {
    name: &'static str,
    pub(super) tables: Vec<TableInfo>,
}

impl Session {
    /// Puts a schema in the place of the captures: names without schema refer to it, and no other one is left.
    ///
    /// The session's own captures would answer `capture.launch` with no rows, as if the fleet had none.
    pub fn lead_with(&mut self, leading: LeadingSchema) -> Result<(), AnalyzeError> {
        let LeadingSchema { name, schema, tables, views } = leading;
        if let Some(catalog) = self.context.catalog(CATALOG) {
            let own = self.captures.iter().map(|capture| capture.name.as_str());
            for own in own.chain([EVERY]) {
                catalog.deregister_schema(own, true)?;
            }
            catalog.register_schema(name, schema)?;
        }
        name.clone_into(
            &mut self.context.state_ref().write().config_mut().options_mut().catalog.default_schema,
        );
        self.leading = Some(LeadingNames { name, tables });
        self.views = views;
        Ok(())
    }

    /// True if names refer to other tables than those of its captures: see [`Session::lead_with`].
    pub const fn is_led(&self) -> bool {
        self.leading.is_some()
    }

    /// The schemas, that of names without schema first.
    pub fn schema_names(&self) -> Vec<&str> {
        match &self.leading {
            Some(leading) => vec![leading.name],
            None => self.captures.iter().map(|capture| capture.name.as_str()).chain([EVERY]).collect(),
        }
    }
}
