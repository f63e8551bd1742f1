//! Bundles under the sanitizer API: memory copied before and after a launch, turned into rows.

use std::ops::Range;
use std::sync::Arc;

use stallmap_config::{Config, FullBufferAction, KernelShape, RecordedSpace};
use stallmap_schema::cell::Blob;
use stallmap_schema::hash::content_hash;
use stallmap_schema::id::{Address, KernelId, RunId};
use stallmap_schema::tables::replay::{Bundle, BundlePage, BundleSymbol};
use stallmap_schema::word::{BundleMethod, LossKind};
use stallmap_sys::cuda;
use stallmap_sys::sanitizer::LaunchData;

use super::launch::CallArguments;
use super::{AccessInstrument, own};
use crate::accesses::bundle::buffer;
use crate::accesses::bundle::candidates::{self, LaunchPages};
use crate::accesses::bundle::contents::RecordedContent;
use crate::accesses::bundle::memory::AllocationMap;
use crate::accesses::bundle::pages::PageSet;
use crate::accesses::bundle::ranges::NumberedPages;
use crate::accesses::bundle::recorded::{self, BundlePages, SavedContents};
use crate::accesses::bundle::refusal::{BundleRefusal, reason};
use crate::accesses::bundle::selection::LaunchKind;
use crate::accesses::bundle::symbols::{self, ModuleVariable};
use crate::accesses::bundle::uses::KernelUses;
use crate::accesses::bundle::{PAGE_BYTES_U64, PAGE_SHIFT, PageBytes};
use crate::accesses::ring::PageGathering;
use stallmap_session::gpu::code::LoadedCode;
use stallmap_session::gpu::device;
use stallmap_session::{context, session, torch};

mod copies;
mod recorder;
mod snapshot;
mod steps;

use copies::CopySource;
use recorder::BundleRecorder;
pub(super) use recorder::SessionBundles;
pub(super) use steps::{GraphStepLaunch, stepped};

/// Most memory that is saved before a launch.
const MAX_SAVED_BYTES: u64 = 16 << 30;
/// Most bytes of variables of a module.
const MAX_VARIABLE_BYTES: usize = 16 << 20;

/// A launch that is beginning.
#[derive(Clone, Copy)]
pub(super) struct LaunchBeginning<'a> {
    /// The API's data about the launch.
    pub(super) data: &'a LaunchData,
    /// Its kernel's module.
    pub(super) code: Option<&'a LoadedCode>,
    /// Arguments of the launch call.
    pub(super) given: Option<&'a CallArguments>,
}

/// A launch that is to become a bundle.
pub(super) struct PreparedBundle {
    kernel_id: KernelId,
    kind: LaunchKind,
    uses: KernelUses,
    candidates: LaunchPages,
    numbered: NumberedPages,
    symbols: Arc<Vec<ModuleVariable>>,
    /// Contents of the variables.
    variables: Vec<Vec<u8>>,
    refusal: Option<BundleRefusal>,
    attributes: Vec<u8>,
    is_cooperative: bool,
    max_dynamic_shared_bytes: Option<i32>,
    shared_carveout: Option<i32>,
    record_ns: i64,
}

/// Findings about a launch's memory.
struct MemoryFindings {
    pages: Vec<BundlePage>,
    symbols: Vec<BundleSymbol>,
    new_page_count: u64,
}

impl PreparedBundle {
    /// True if the pages of its accesses are needed.
    pub(super) fn gathers(&self) -> bool {
        self.refusal.is_none()
    }
}

impl AccessInstrument {
    /// Saves the memory that a launch may write, where it is to become a bundle.
    pub(super) fn bundle_begins(
        &self,
        launch: LaunchBeginning,
        name: &str,
        ordinal: u64,
        is_recorded: bool,
    ) -> Option<Box<PreparedBundle>> {
        let bundles = self.bundles.as_ref()?;
        if !is_recorded {
            session::lose(LossKind::Bundle, "not selected: its launch is not recorded", 1, None);
            return None;
        }
        let kind = kind_of(launch, name);
        let mut recorder = bundles.recorder();
        if let Err(reason) = recorder.selection.decide(&kind) {
            session::lose(LossKind::Bundle, reason, 1, Some(name.to_owned()));
            return None;
        }
        let reason = match launch.code {
            None => Some("its module was not seen"),
            Some(_) if !is_whole(self.config) => Some("accesses are not recorded whole"),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            session::lose(LossKind::Bundle, reason, 1, Some(name.to_owned()));
            return None;
        }
        let begin_ns = session::now_ns();
        let mut prepared = Box::new(PreparedBundle::new(kind, ordinal, launch));
        if let Err(refusal) = self.prepare(&mut prepared, bundles, &mut recorder, launch) {
            prepared.refusal = Some(refusal);
        }
        prepared.record_ns = session::now_ns() - begin_ns;
        Some(prepared)
    }

    fn prepare(
        &self,
        prepared: &mut PreparedBundle,
        bundles: &SessionBundles,
        recorder: &mut BundleRecorder,
        LaunchBeginning { data, code, given }: LaunchBeginning,
    ) -> Result<(), BundleRefusal> {
        if recorder.is_spent {
            return Err(BundleRefusal::for_reason(reason::BUDGET));
        }
        let code = code.ok_or_else(|| BundleRefusal::for_reason("its module was not seen"))?;
        let given = given.ok_or_else(|| BundleRefusal::for_reason("its launch call was not seen"))?;
        let name = prepared.kind.kernel.name.clone();
        prepared.uses = recorder.uses(code, &name);
        if let Some(reason) = prepared.uses.refusal {
            return Err(BundleRefusal::for_reason(reason));
        }
        let variables = recorder.variables(data.module);
        prepared.symbols = variables
            .ok_or_else(|| BundleRefusal::for_reason("its module's variables were not looked for"))?;
        if prepared.symbols.iter().map(|symbol| symbol.bytes).sum::<usize>() > MAX_VARIABLE_BYTES {
            return Err(BundleRefusal::for_reason("its module's variables have more than 16 MiB"));
        }
        let all = recorder.wanderers.contains(&name);
        let block_at = |address| torch::calls::storage_at(address).map(|(start, bytes)| start..start + bytes);
        // A copy: looking blocks up must not run under this lock.
        let memory = bundles.memory().clone();
        prepared.candidates = candidates::find(&given.parameters.bytes, &memory, data.device, block_at, all);
        if prepared.candidates.saved.count() > MAX_SAVED_BYTES / PAGE_BYTES_U64 {
            return Err(BundleRefusal::for_reason("what it may write has more than 16 GiB"));
        }
        prepared.numbered = NumberedPages::new(&prepared.candidates.saved);
        self.save(prepared, recorder, data, &memory)
            .map_err(|error| BundleRefusal::with(reason::UNREADABLE, error))
    }

    /// Copies candidates and variables to the host.
    fn save(
        &self,
        prepared: &mut PreparedBundle,
        recorder: &mut BundleRecorder,
        data: &LaunchData,
        memory: &AllocationMap,
    ) -> Result<(), String> {
        let pages = usize::try_from(prepared.candidates.saved.count()).unwrap_or(usize::MAX);
        let buffers = recorder.buffers.entry(data.context.key()).or_default();
        self.reserve(&mut buffers.saved, pages, data.context)?;
        self.reserve(&mut buffers.window, buffer::CHUNK_PAGES, data.context)?;
        let mut read =
            |pages: Range<u64>, target: &mut [PageBytes]| self.read_pages(data.into(), memory, pages, target);
        buffers.saved.load(&prepared.candidates.saved, &mut read)?;
        prepared.variables = self.read_variables(data.into(), &prepared.symbols)?;
        Ok(())
    }

    /// Records a launch's effect on memory. The error in `completed` is the reason if it is not known.
    pub(super) fn bundle_ends(
        &self,
        data: &LaunchData,
        mut prepared: Box<PreparedBundle>,
        completed: Result<PageGathering, BundleRefusal>,
    ) {
        let Some(bundles) = &self.bundles else { return };
        let begin_ns = session::now_ns();
        let mut recorder = bundles.recorder();
        let rows = match prepared.refusal.take() {
            Some(refusal) => Err(refusal),
            None => completed.and_then(|gathering| {
                let gathered = gathering.take(prepared.kernel_id.0);
                let touched =
                    gathered.ok_or_else(|| BundleRefusal::for_reason("its accesses could not be read"))?;
                // A copy, as before the launch.
                let memory = bundles.memory().clone();
                self.record_memory(&memory, &mut recorder, data, &prepared, &touched)
            }),
        };
        match &rows {
            Ok(_) => recorder.selection.succeeded(prepared.kind.clone()),
            Err(refusal) => recorder.refused(&prepared, refusal),
        }
        recorder.contents.flush(session::emit_pages);
        prepared.record_ns += session::now_ns() - begin_ns;
        emit(*prepared, rows, bundles.budget_bytes);
    }

    fn record_memory(
        &self,
        memory: &AllocationMap,
        recorder: &mut BundleRecorder,
        data: &LaunchData,
        prepared: &PreparedBundle,
        touched: &PageSet,
    ) -> Result<MemoryFindings, BundleRefusal> {
        let pages = touched.pages();
        let variables = symbols::pages(&prepared.symbols);
        let touched =
            recorded::touched(&pages, prepared.uses, &prepared.candidates, memory, &variables, data.device)?;
        let touched = BundlePages { records_after: recorder.records_after, ..touched };
        let BundleRecorder { contents, buffers, .. } = recorder;
        let buffers = buffers.entry(data.context.key()).or_default();
        let saved = SavedContents { numbered: &prepared.numbered, buffer: &buffers.saved };
        let mut read =
            |pages: Range<u64>, target: &mut [PageBytes]| self.read_pages(data.into(), memory, pages, target);
        let mut keep = |page: &PageBytes| recorded::add(contents, page, session::emit_pages);
        let changed = recorded::changes(&touched, &saved, &mut buffers.window, &mut read, &mut keep)?;
        let mut all = touched.all;
        for &page in changed.keys() {
            all.add(page..page + 1);
        }
        let mut new_page_count = 0;
        let mut add = |page: &PageBytes| {
            let stored = recorded::add(contents, page, session::emit_pages)?;
            new_page_count += u64::from(stored.is_new);
            Ok(stored)
        };
        let stored = recorded::contents_before(&all, &saved, &mut buffers.window, &mut read, &mut add)?;
        let kernel_id = prepared.kernel_id;
        let row = |(page, stored): (u64, RecordedContent)| BundlePage {
            kernel_id,
            address: Address(page << PAGE_SHIFT),
            content_id: stored.content_id,
            hash_after: changed.get(&page).map(|change| change.hash),
            content_after_id: changed.get(&page).and_then(|change| change.content_id),
            written_content_id: changed.get(&page).and_then(|change| change.written_content_id),
        };
        let pages = stored.into_iter().map(row).collect();
        let symbols = self.record_variables(data, prepared, &mut add)?;
        Ok(MemoryFindings { pages, symbols, new_page_count })
    }

    fn record_variables(
        &self,
        data: &LaunchData,
        prepared: &PreparedBundle,
        add: &mut dyn FnMut(&PageBytes) -> Result<RecordedContent, BundleRefusal>,
    ) -> Result<Vec<BundleSymbol>, BundleRefusal> {
        let after = self
            .read_variables(data.into(), &prepared.symbols)
            .map_err(|error| BundleRefusal::with(reason::UNREADABLE, error))?;
        let mut rows = Vec::new();
        for ((symbol, before), after) in prepared.symbols.iter().zip(&prepared.variables).zip(&after) {
            for part in symbols::parts(before, after) {
                rows.push(BundleSymbol {
                    kernel_id: prepared.kernel_id,
                    symbol: symbol.name.clone(),
                    offset_bytes: part.offset as u64,
                    size_bytes: u32::try_from(part.bytes).unwrap_or(u32::MAX),
                    content_id: add(&part.before)?.content_id,
                    hash_after: part.after.as_ref().map(|page| content_hash(page)),
                });
            }
        }
        Ok(rows)
    }
}

impl PreparedBundle {
    fn new(kind: LaunchKind, ordinal: u64, LaunchBeginning { data, given, .. }: LaunchBeginning) -> Self {
        let attribute = |attribute| own(|| device::function_attribute(data.function, attribute));
        Self {
            kernel_id: KernelId(ordinal),
            kind,
            uses: KernelUses::UNKNOWN,
            candidates: LaunchPages::default(),
            numbered: NumberedPages::default(),
            symbols: Arc::default(),
            variables: Vec::new(),
            refusal: None,
            attributes: given.map(|given| given.attributes.clone()).unwrap_or_default(),
            is_cooperative: given.is_some_and(|given| given.is_cooperative),
            max_dynamic_shared_bytes: attribute(cuda::ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES),
            shared_carveout: attribute(cuda::ATTRIBUTE_SHARED_CARVEOUT),
            record_ns: 0,
        }
    }
}

fn kind_of(LaunchBeginning { data, given, .. }: LaunchBeginning, name: &str) -> LaunchKind {
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (data.grid, data.block);
    let shape = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
    LaunchKind {
        kernel: KernelShape { name: name.to_owned(), shape },
        shared_bytes: given.map_or(0, |given| given.dynamic_shared_bytes),
        shapes_hash: context::current().map_or(0, |context| context.shapes_hash),
    }
}

/// True if every access to device memory is recorded.
fn is_whole(config: &Config) -> bool {
    config.blocks.is_none()
        && config.when_full == FullBufferAction::Wait
        && config.spaces.contains(&RecordedSpace::Global)
}

fn emit(prepared: PreparedBundle, rows: Result<MemoryFindings, BundleRefusal>, budget_bytes: u64) {
    let method = if prepared.uses.is_observed() { BundleMethod::Observed } else { BundleMethod::Derived };
    let text = |refusal: &BundleRefusal| match refusal.reason {
        reason::BUDGET => format!("budget of {budget_bytes} bytes is used up"),
        reason => reason.to_owned(),
    };
    let (refusal, rows) = match rows {
        Ok(rows) => (None, rows),
        Err(refusal) => (
            Some(text(&refusal)),
            MemoryFindings { pages: Vec::new(), symbols: Vec::new(), new_page_count: 0 },
        ),
    };
    session::emit(Bundle {
        kernel_id: prepared.kernel_id,
        run_id: RunId(0),
        method: refusal.is_none().then_some(method),
        refusal,
        page_count: rows.pages.len() as u64,
        written_page_count: rows.pages.iter().filter(|page| page.hash_after.is_some()).count() as u64,
        new_page_count: rows.new_page_count,
        is_cooperative: prepared.is_cooperative,
        attributes: Blob(prepared.attributes),
        max_dynamic_shared_bytes: prepared.max_dynamic_shared_bytes,
        shared_carveout: prepared.shared_carveout,
        record_ns: prepared.record_ns,
    });
    rows.pages.into_iter().for_each(session::emit);
    rows.symbols.into_iter().for_each(session::emit);
}
