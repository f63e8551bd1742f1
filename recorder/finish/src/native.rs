//! Native stacks: return addresses become functions and lines, by the files of libraries as they are now.

mod elf;
mod symbols;

use std::collections::{BTreeMap, HashMap};

use stallmap_schema::capture::recording::NativeLibrary;
use stallmap_schema::hash;
use stallmap_schema::id::{NativeFrameId, NativeStack};
use stallmap_schema::tables::native::{NativeFrame, NativeState};
use stallmap_schema::word::LossKind;

use self::symbols::LibrarySymbols;
use crate::loss::LossTotals;
use crate::runs::RunState;

/// File names of NVIDIA's libraries. Of their frames, which are theirs alone, a stack keeps the function that was called.
const API_LIBRARIES: [&str; 4] = ["libcuda.so", "libcudart.so", "libcupti.so", "libsanitizer-"];
/// The reason of frames in code of no file.
const NO_LIBRARY: &str = "code of no file";

/// Frames and stacks of runs, each once.
#[derive(Default)]
pub(crate) struct NativeStacks {
    libraries: BTreeMap<String, LibrarySymbols>,
    /// Frames of a place, innermost first: (code of the library, offset).
    places: HashMap<(String, u64), Vec<NativeFrameId>>,
    frames: BTreeMap<NativeFrameId, NativeFrame>,
    states: BTreeMap<(NativeStack, u32), NativeState>,
}

impl NativeStacks {
    /// Adds the stacks of a run. Its launches have the hashes of the capture afterwards.
    pub(crate) fn add(&mut self, run: &mut RunState, losses: &mut LossTotals) {
        let libraries: HashMap<u64, NativeLibrary> = std::mem::take(&mut run.rows.native_libraries)
            .into_iter()
            .map(|row| (row.library, row))
            .collect();
        let mut addresses = std::mem::take(&mut run.rows.native_addresses);
        addresses.sort_by_key(|address| (address.native_stack, address.depth));
        let mut known = HashMap::new();
        for stack in addresses.chunk_by(|a, b| a.native_stack == b.native_stack) {
            let places = stack
                .iter()
                .map(|address| (address.library.and_then(|library| libraries.get(&library)), address.offset));
            let places: Vec<_> = places.collect();
            let is_api = |place: &(Option<&NativeLibrary>, u64)| place.0.is_some_and(is_api);
            let api = places.iter().take_while(|place| is_api(place)).count();
            let own = places.get(api.saturating_sub(1)..).unwrap_or_default();
            let frames: Vec<_> =
                own.iter().flat_map(|(library, offset)| self.place(*library, *offset)).collect();
            for loss in
                frames.iter().filter_map(|id| self.frames.get(id)).filter(|row| row.function.is_none())
            {
                let reason =
                    format!("function of a native frame: {}", loss.missing.as_deref().unwrap_or_default());
                let detail = losses.add(run.run_id(), LossKind::Source, &reason, 1);
                *detail = detail.take().or_else(|| loss.library.clone());
            }
            let native_stack = hash::native_stack(&frames);
            for (depth, native_frame_id) in (0..).zip(frames) {
                let state = NativeState { native_stack, depth, native_frame_id, run_id: run.run_id() };
                self.states.entry((native_stack, depth)).or_insert(state);
            }
            known.extend(stack.first().map(|address| (address.native_stack, native_stack)));
        }
        let rows = &mut run.rows;
        let launches = rows.launches.iter_mut().map(|row| &mut row.native_stack);
        for place in launches.chain(rows.copies.iter_mut().map(|row| &mut row.native_stack)) {
            *place = place.and_then(|stack| known.get(&stack).copied());
        }
    }

    /// Rows of `native_frame` and `native_state`.
    pub(crate) fn into_rows(self) -> (Vec<NativeFrame>, Vec<NativeState>) {
        (self.frames.into_values().collect(), self.states.into_values().collect())
    }

    /// The frames at a place, innermost first.
    fn place(&mut self, library: Option<&NativeLibrary>, offset: u64) -> Vec<NativeFrameId> {
        let code = library.map_or_else(String::new, code);
        let key = (code, offset);
        if let Some(frames) = self.places.get(&key) {
            return frames.clone();
        }
        let frame = NativeFrame {
            library: library.map(|library| library.path.clone()),
            build_id: library.and_then(|library| library.build_id.clone()),
            call_offset: offset,
            missing: Some(NO_LIBRARY.to_owned()),
            ..NativeFrame::default()
        };
        let mut rows = vec![frame.clone()];
        if let Some(library) = library {
            let symbols =
                self.libraries.entry(key.0.clone()).or_insert_with(|| LibrarySymbols::open(library));
            rows = symbols.at(offset).into_iter().map(|symbol| symbol.fill(frame.clone())).collect();
        }
        let mut frames = Vec::new();
        for (level, row) in (0..).zip(rows) {
            let native_frame_id = hash::native_frame(&key.0, offset, level);
            self.frames.insert(native_frame_id, NativeFrame { native_frame_id, level, ..row });
            frames.push(native_frame_id);
        }
        self.places.insert(key, frames.clone());
        frames
    }
}

/// Identity of a library's code on every machine, and of a file where it has no build id.
fn code(library: &NativeLibrary) -> String {
    let hash = library.index_hash.as_deref().unwrap_or_default();
    library.build_id.clone().unwrap_or_else(|| format!("{} {hash}", library.path))
}

fn is_api(library: &NativeLibrary) -> bool {
    let name = library.path.rsplit('/').next().unwrap_or_default();
    API_LIBRARIES.iter().any(|api| name.starts_with(api))
}
