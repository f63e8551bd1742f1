//! Bundles in a capture: launches with their code, parameters, memory.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::{Launch, LaunchParameter};
use stallmap_schema::tables::replay::{self, BundleContent, BundlePage, BundleSymbol, PAGE_BYTES};
use stallmap_sys::replayer::{LAUNCH_COOPERATIVE, LAUNCH_OWN, LaunchAttribute};

use crate::error::{GpuError, ReplayError};
use crate::gpu::LaunchShape;

/// Limit of rows of bundles, functions and modules in memory: far more than any program has.
const MAX_BUNDLES: usize = 8 << 20;
/// Most pages of all selected bundles together.
const MAX_PAGES: usize = 64 << 20;
/// CUDA allows 32,764.
const MAX_PARAMETER_BYTES: usize = 64 << 10;
/// Addresses of GPUs are below: so much that sums of an address and a size are numbers too.
const ADDRESSES: u64 = 1 << 57;

/// One launch that can be run again.
#[derive(Clone, Debug)]
pub struct ReplayBundle {
    /// The launch.
    pub kernel_id: KernelId,
    /// The kernel's mangled name.
    pub name: String,
    /// Its cubin.
    pub module_id: ModuleId,
    /// The hash of that cubin as the program loaded it.
    pub content_hash: String,
    /// Its shape.
    pub shape: LaunchShape,
    /// Largest dynamic shared memory that the function was allowed.
    pub max_dynamic_shared_bytes: Option<i32>,
    /// Preferred shared memory carveout in percent.
    pub shared_carveout: Option<i32>,
    /// Parameter bytes.
    pub parameters: Vec<u8>,
    /// Pages of memory, by address.
    pub pages: Vec<DevicePage>,
    /// Parts of the module's variables.
    pub symbols: Vec<SymbolPart>,
}

/// A page of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePage {
    /// Its address.
    pub address: u64,
    /// Its content before the launch.
    pub content_id: u64,
    /// Hash of its content after the launch, where the launch writes it.
    pub hash_after: Option<u64>,
    /// Its content after the launch, where atomics wrote it.
    pub content_after_id: Option<u64>,
}

/// A part of a module's variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolPart {
    /// The variable's mangled name.
    pub name: String,
    /// Offset of the part in it.
    pub offset_bytes: u64,
    /// Bytes of the part, up to a page.
    pub size_bytes: u32,
    /// Its content before the launch.
    pub content_id: u64,
    /// Hash of its content after the launch, where the launch changed it.
    pub hash_after: Option<u64>,
}

/// The bundles of a capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureBundles {
    /// By launch.
    pub bundles: BTreeMap<KernelId, ReplayBundle>,
    /// Selected launches that are not bundles, with the reason.
    pub refusals: BTreeMap<KernelId, String>,
    /// The runs that recorded them.
    pub runs: BTreeSet<RunId>,
}

impl ReplayBundle {
    /// Returns an error if contents of its memory are missing.
    pub fn check_whole(&self, contents: &PageContents) -> Result<(), GpuError> {
        let pages = self.pages.iter().map(|page| page.content_id);
        let ids = pages.chain(self.symbols.iter().map(|symbol| symbol.content_id));
        let missing = ids.filter(|content_id| !contents.contains_key(content_id)).count();
        if missing == 0 {
            return Ok(());
        }
        Err(GpuError::own("fill its memory", format!("the capture lacks {missing} of its pages")))
    }

    /// A flaw that no recorder writes. A capture is untrusted, and later steps rely on this check.
    fn flaw(&self) -> Option<&'static str> {
        let is_page =
            |page: &DevicePage| page.address.is_multiple_of(PAGE_BYTES as u64) && page.address < ADDRESSES;
        let is_part = |symbol: &SymbolPart| symbol.size_bytes as usize <= PAGE_BYTES;
        if self.parameters.len() > MAX_PARAMETER_BYTES {
            Some("it has more parameters than a launch can have")
        } else if !self.pages.iter().all(is_page) {
            Some("a page of its memory is at an address that is none")
        } else if !self.symbols.iter().all(is_part) {
            Some("a part of a variable is larger than a page")
        } else {
            None
        }
    }
}

/// Contents of pages, by content_id.
pub type PageContents = BTreeMap<u64, Vec<u8>>;

impl CaptureBundles {
    /// Reads the bundles of a capture, without their memory: that is read of those that are selected.
    pub fn read(capture: &CaptureReader) -> Result<Self, CaptureError> {
        let mut all = Self::default();
        let mut rows = BTreeMap::new();
        capture.for_each_row(MAX_BUNDLES, |row: replay::Bundle| {
            all.runs.insert(row.run_id);
            match &row.refusal {
                Some(refusal) => drop(all.refusals.insert(row.kernel_id, refusal.clone())),
                None => drop(rows.insert(row.kernel_id, row)),
            }
        })?;
        let code = FunctionCubins::read(capture)?;
        capture.for_each_row(usize::MAX, |launch: Launch| {
            let bundle = rows.get(&launch.kernel_id).and_then(|row| code.bundle(row, &launch));
            all.bundles.extend(bundle.map(|bundle| (bundle.kernel_id, bundle)));
        })?;
        for kernel_id in rows.into_keys().filter(|kernel_id| !all.bundles.contains_key(kernel_id)) {
            all.refusals.insert(kernel_id, "its launch or its code is not in the capture".to_owned());
        }
        all.add_parameters(capture)?;
        Ok(all)
    }

    fn add_parameters(&mut self, capture: &CaptureReader) -> Result<(), CaptureError> {
        capture.for_each_row(usize::MAX, |row: LaunchParameter| {
            if let Some(bundle) = self.bundles.get_mut(&row.kernel_id) {
                bundle.parameters = row.bytes.0;
                // More is a flaw, whatever it is.
                bundle.parameters.truncate(MAX_PARAMETER_BYTES + 1);
            }
        })
    }

    /// Reads the memory of the bundles that are left. Those that are flawed become refusals.
    pub fn read_memory(&mut self, capture: &CaptureReader) -> Result<(), ReplayError> {
        let mut left = MAX_PAGES;
        let mut is_room = || {
            left = left.saturating_sub(1);
            left > 0
        };
        capture.for_each_row(usize::MAX, |row: BundlePage| {
            if let Some(bundle) = self.bundles.get_mut(&row.kernel_id).filter(|_| is_room()) {
                let BundlePage { address, content_id, hash_after, content_after_id, .. } = row;
                bundle.pages.push(DevicePage {
                    address: address.0,
                    content_id,
                    hash_after,
                    content_after_id,
                });
            }
        })?;
        capture.for_each_row(usize::MAX, |row: BundleSymbol| {
            if let Some(bundle) = self.bundles.get_mut(&row.kernel_id).filter(|_| is_room()) {
                let BundleSymbol { symbol: name, offset_bytes, size_bytes, content_id, hash_after, .. } = row;
                bundle.symbols.push(SymbolPart { name, offset_bytes, size_bytes, content_id, hash_after });
            }
        })?;
        if left == 0 {
            return Err(ReplayError::TooMuch(MAX_PAGES));
        }
        for bundle in self.bundles.values_mut() {
            bundle.pages.sort_by_key(|page| page.address);
            bundle.pages.dedup_by_key(|page| page.address);
        }
        self.refuse_flawed();
        Ok(())
    }

    fn refuse_flawed(&mut self) {
        let flawed = self.bundles.extract_if(.., |_, bundle| bundle.flaw().is_some());
        let reason = |bundle: ReplayBundle| bundle.flaw().unwrap_or_default().to_owned();
        self.refusals.extend(flawed.map(|(kernel_id, bundle)| (kernel_id, reason(bundle))));
    }
}

/// Reads the contents that some bundles need.
pub fn contents<'a>(
    capture: &CaptureReader,
    bundles: impl IntoIterator<Item = &'a ReplayBundle>,
) -> Result<PageContents, CaptureError> {
    let mut wanted = BTreeSet::new();
    for bundle in bundles {
        wanted.extend(
            bundle.pages.iter().flat_map(|page| [Some(page.content_id), page.content_after_id]).flatten(),
        );
        wanted.extend(bundle.symbols.iter().map(|symbol| symbol.content_id));
    }
    let mut contents = PageContents::new();
    capture.for_each_row(usize::MAX, |row: BundleContent| {
        if row.bytes.0.len() == PAGE_BYTES && wanted.contains(&row.content_id) {
            contents.insert(row.content_id, row.bytes.0);
        }
    })?;
    Ok(contents)
}

/// The cubin of each function.
struct FunctionCubins {
    functions: BTreeMap<FunctionId, Function>,
    modules: BTreeMap<ModuleId, Module>,
}

impl FunctionCubins {
    fn read(capture: &CaptureReader) -> Result<Self, CaptureError> {
        let (mut functions, mut modules) = (BTreeMap::new(), BTreeMap::new());
        capture.for_each_row(MAX_BUNDLES, |row: Function| drop(functions.insert(row.function_id, row)))?;
        capture.for_each_row(MAX_BUNDLES, |row: Module| drop(modules.insert(row.module_id, row)))?;
        Ok(Self { functions, modules })
    }

    fn bundle(&self, row: &replay::Bundle, launch: &Launch) -> Option<ReplayBundle> {
        let function = self.functions.get(&launch.function_id)?;
        let module = self.modules.get(&function.module_id).filter(|module| module.file.is_some())?;
        Some(ReplayBundle {
            kernel_id: row.kernel_id,
            name: function.name.clone(),
            module_id: module.module_id,
            content_hash: module.content_hash.clone(),
            shape: LaunchShape {
                grid: [launch.grid_x, launch.grid_y, launch.grid_z],
                block: [launch.block_x, launch.block_y, launch.block_z],
                dynamic_shared_bytes: launch.dynamic_shared_bytes.unwrap_or(0),
                attributes: attributes(&row.attributes.0, row.is_cooperative),
            },
            max_dynamic_shared_bytes: row.max_dynamic_shared_bytes,
            shared_carveout: row.shared_carveout,
            parameters: Vec::new(),
            pages: Vec::new(),
            symbols: Vec::new(),
        })
    }
}

/// The recorded attributes that concern the kernel itself.
fn attributes(bytes: &[u8], is_cooperative: bool) -> Vec<LaunchAttribute> {
    let number = |attribute: &LaunchAttribute| {
        attribute.0.first_chunk().map_or(0, |number: &[u8; 4]| i32::from_le_bytes(*number))
    };
    let (recorded, _rest) = bytes.as_chunks::<72>();
    let mut attributes: Vec<LaunchAttribute> = recorded
        .iter()
        .map(|bytes| LaunchAttribute(*bytes))
        .filter(|attribute| LAUNCH_OWN.contains(&number(attribute)))
        .collect();
    if is_cooperative && !attributes.iter().any(|attribute| number(attribute) == LAUNCH_COOPERATIVE) {
        let mut attribute = LaunchAttribute([0; 72]);
        attribute.0[0] = LAUNCH_COOPERATIVE.to_le_bytes()[0];
        attribute.0[8] = 1;
        attributes.push(attribute);
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_order_work_are_left_out() {
        let mut bytes = vec![0; 144];
        bytes[0] = 6; // programmatic stream serialization
        bytes[72] = 4; // cluster
        let filtered = attributes(&bytes, true);
        assert_eq!(filtered.iter().map(|attribute| attribute.0[0]).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(filtered[1].0[8], 1);
        assert!(attributes(&bytes[..71], false).is_empty());
    }
}
