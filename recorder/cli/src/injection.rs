//! The library to inject: its location, with a check that a process can load it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, anyhow, bail};
use stallmap_config::{Config, KernelShape, NVTX_VARIABLE, PassInstrument, SamplingMethod, VARIABLE};

use crate::args::ProbedPart;
use crate::{message, probe, python};

/// The library's file name.
pub(crate) const LIBRARY: &str = "libstallmap_inject.so";

/// Folders of the library, from the executable's folder.
const PLACES: [&str; 4] = ["", "../lib/stallmap", "../lib", "lib"];

/// Variables of the environment that make a program record itself.
#[derive(Debug)]
pub(crate) struct InjectionSetup {
    library: PathBuf,
    python_path: Option<OsString>,
    config: Config,
}

impl InjectionSetup {
    /// Gets everything ready in the recording's folder; `given` is the library that the user named.
    pub(crate) fn prepare(config: Config, given: Option<&Path>) -> anyhow::Result<Self> {
        let library = usable(given)?;
        let python_path = if config.python { unpack_python(&config.directory) } else { None };
        Ok(Self { library, python_path, config })
    }

    /// Records bundles of these kernels only.
    pub(crate) fn select(&mut self, kernels: Vec<KernelShape>) {
        if let Some(bundles) = &mut self.config.bundles {
            bundles.only = Some(kernels);
        }
    }

    /// Samples continuously from now on.
    pub(crate) fn sample_continuously(&mut self) {
        self.config.sampling = SamplingMethod::Continuous;
    }

    /// True if launches are sampled one at a time.
    pub(crate) fn samples_serialized(&self) -> bool {
        self.config.sampling == SamplingMethod::Serialized
    }

    /// With `true`, a launch call that sampling holds for too long is written to a file that `stallmap-record` awaits.
    pub(crate) fn await_held_launch(&mut self, is_awaited: bool) {
        self.config.is_sampled_again = is_awaited;
    }

    /// The variables for a run of the program under `instrument`.
    pub(crate) fn variables(
        &self,
        instrument: PassInstrument,
    ) -> anyhow::Result<Vec<(&'static str, OsString)>> {
        let bundles = self.config.bundles.clone().filter(|_| instrument == PassInstrument::Accesses);
        let config = Config { instrument, bundles, ..self.config.clone() };
        let json = config.to_json().context("describe the recording to the program")?;
        let library = self.library.clone().into_os_string();
        let mut variables = vec![
            ("CUDA_INJECTION64_PATH", library.clone()),
            ("STALLMAP_LIBRARY", library),
            (VARIABLE, OsString::from(json)),
        ];
        // A library that the user has set takes the ranges. The recorder's counts that.
        if env::var_os(NVTX_VARIABLE).is_none() {
            variables.push((NVTX_VARIABLE, self.library.clone().into_os_string()));
        }
        if env::var_os(TRITON_CHOICES).is_none() {
            variables.push((TRITON_CHOICES, "1".into()));
        }
        variables.extend(self.python_path.clone().map(|path| ("PYTHONPATH", path)));
        Ok(variables)
    }
}

/// Makes Triton keep the choices of its tuner, as torch.compile does: runs after the first take them from there.
const TRITON_CHOICES: &str = "TRITON_CACHE_AUTOTUNING";

/// Without the package the rest is still recorded.
fn unpack_python(folder: &Path) -> Option<OsString> {
    match python::unpack(folder) {
        Ok(path) => Some(path),
        Err(error) => {
            message::warning(format_args!("Python stacks, ops and tensors are not recorded: {error:#}"));
            None
        }
    }
}

/// The library that can be loaded, or why there is none.
pub(crate) fn usable(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let library = find(given)?;
    probe::in_a_process(ProbedPart::Library, &library).map_err(|cause| {
        anyhow!("the recorder's library cannot be loaded: {cause}: `{}`", library.display())
    })?;
    Ok(library)
}

/// The library's path: `given`, or next to the executable.
pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return fs::canonicalize(path)
            .map_err(|error| anyhow!("the recorder's library is missing: {error}: `{}`", path.display()));
    }
    let executable = env::current_exe().and_then(fs::canonicalize).context("find this executable")?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = PLACES.map(|place| folder.join(place).join(LIBRARY));
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        bail!("the recorder's library is missing: no {LIBRARY} next to `{}`", executable.display());
    };
    fs::canonicalize(found).with_context(|| format!("find `{}`", found.display()))
}
