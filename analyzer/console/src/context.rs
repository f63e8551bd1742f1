//! The settings that every command shares, and the captures that they open.

use std::path::{Path, PathBuf};
use std::sync::Once;

use stallmap::code::ResultCache;
use stallmap::library::user::UserLibrary;
use stallmap::location::CaptureLocation;
use stallmap::session::Session;
use stallmap::session::resources::{CostFrom, SessionResources};
use tokio::runtime::{Builder, Runtime};

use crate::args::memory::MemoryBound;
use crate::args::named::with_names;
use crate::exit::{CommandFailure, IO, Outcome};
use crate::explain::explain;
use crate::library::VARIABLE;
use crate::output;

/// Bytes of a thread's stack: reserved, and committed only as used.
pub const STACK_BYTES: usize = 256 << 20;

/// The user's library, the cache, the limit of memory, and the samples that count as cost.
#[derive(Clone, Debug)]
pub struct CommandContext {
    library: Option<PathBuf>,
    resources: SessionResources,
}

impl CommandContext {
    /// The settings of the environment, with the library of the command line before that of `STALLMAP_LIBRARY`.
    pub fn of_environment(
        library: Option<&Path>,
        recompute: bool,
        memory: MemoryBound,
        cost_from: CostFrom,
    ) -> Self {
        let cache = ResultCache::of_environment(|name| std::env::var_os(name).map(PathBuf::from));
        let variable = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self {
            library: library.map(Path::to_owned).or_else(variable),
            resources: SessionResources {
                cache: if recompute { cache.replaced() } else { cache },
                memory_bytes: memory.bytes(),
                reads_stored: !recompute,
                cost_from,
                ..SessionResources::NONE
            },
        }
    }

    /// Opens captures for queries, with the user's library next to the bundled one. Each of several captures without a
    /// name has its file's.
    pub fn open<L: Clone + AsRef<Path> + Into<CaptureLocation>>(
        &self,
        captures: &[(Option<String>, L)],
    ) -> Outcome<Session> {
        self.say_distrust();
        let mut session = Session::open_with(&with_names(captures), &self.resources)
            .map_err(|error| explain(error, None))?;
        if let Some(library) = self.library()? {
            session.extend(&library).map_err(|error| explain(error, None))?;
        }
        Ok(session)
    }

    /// The same settings with another cache, and without the rows that captures hold.
    #[must_use]
    pub fn recomputing(&self, cache: ResultCache) -> Self {
        let resources = SessionResources { cache, reads_stored: false, ..self.resources.clone() };
        Self { library: self.library.clone(), resources }
    }

    /// Says, once, that the cache is not used.
    fn say_distrust(&self) {
        static WARNED: Once = Once::new();
        if let (Some(folder), Some(reason)) = (self.cache().folder(), self.cache().distrust()) {
            WARNED.call_once(|| {
                let folder = output::path(folder);
                output::note(format_args!(
                    "warning: the cache `{folder}` is not used: {reason}. Delete it, or set STALLMAP_CACHE to a folder of your own"
                ));
            });
        }
    }

    /// The user's library, if one was named.
    pub fn library(&self) -> Outcome<Option<UserLibrary>> {
        let library = self.library.as_deref().map(UserLibrary::read).transpose();
        library.map_err(|error| explain(error, None))
    }

    /// The folder for results that can be computed again.
    pub const fn cache(&self) -> &ResultCache {
        &self.resources.cache
    }

    /// The cache, the limit of memory, and the samples that count as cost.
    pub const fn resources(&self) -> &SessionResources {
        &self.resources
    }
}

/// Threads to run queries on, with the stacks that deep expressions need: the planner recurses.
pub fn runtime() -> Outcome<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build().map_err(no_threads)
}

/// The failure of starting a thread.
pub fn no_threads(error: std::io::Error) -> CommandFailure {
    CommandFailure::new(IO, anyhow::Error::from(error).context("start threads"))
}
