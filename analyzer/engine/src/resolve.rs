//! Resolution of a request's lanes to tensors, at one launch.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::HashMap;

use super::index::{ResolverLaunch, TensorIndex};
use super::life::{AddressPiece, LiveSet};
use super::request::WarpRequest;

/// Target of an address. The numbers are positions in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressTarget {
    /// A tensor.
    Tensor(u32),
    /// A storage, at an offset that none of its views covers.
    Storage(u32),
    /// An allocation of the driver, outside any storage.
    Allocation(u32),
    /// Unknown.
    Unknown,
    /// Not device memory.
    NotGlobal,
}

impl AddressTarget {
    /// The texts for [`AddressTarget::word`]'s values.
    pub const WORDS: [&str; 5] = ["tensor", "storage", "outside any tensor", "unknown address", "not global"];

    /// The text of its kind.
    pub fn text(self) -> &'static str {
        Self::WORDS[usize::from(self.word())]
    }

    /// Its kind's position in [`AddressTarget::WORDS`].
    pub fn word(self) -> u8 {
        match self {
            Self::Tensor(_) => 0,
            Self::Storage(_) => 1,
            Self::Allocation(_) => 2,
            Self::Unknown => 3,
            Self::NotGlobal => 4,
        }
    }
}

/// Some lanes of a request that belong to one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneShare {
    /// Their target.
    pub target: AddressTarget,
    /// The lanes.
    pub lane_mask: u32,
}

/// Maximum of views checked per address: a bound against captures with absurdly many overlapping views.
const MAX_CANDIDATES: usize = 64;
/// Maximum of enclosing ops checked: parents in a damaged capture can form a cycle.
const DEEPEST_OP: u32 = 256;

/// A range of addresses with one result.
#[derive(Clone, Copy, Debug)]
struct AddressStretch {
    low: u64,
    high: u64,
    /// The result, or the pieces' candidates to check, in `candidates`.
    answer: Result<AddressTarget, TargetCandidates>,
}

#[derive(Clone, Copy, Debug)]
struct TargetCandidates {
    storage: u32,
    start: usize,
    end: usize,
}

/// Resolves addresses for one launch after the other. Fastest when launches come in their order, and nodes of a graph
/// in theirs.
#[derive(Debug)]
pub struct AddressResolver {
    index: Arc<TensorIndex>,
    /// Per run, its storages and allocations at the last launch.
    live: Vec<LiveObjects>,
    /// The same for nodes of graphs: their captures lie far back, and a shared set would move back and forth.
    live_in_capture: Vec<LiveObjects>,
    /// True if `live_in_capture` is in use.
    is_in_capture: bool,
    kernel_id: Option<u64>,
    launch: Option<ResolverLaunch>,
    /// At this launch, the depth of the op of each view, 0 for the running op.
    depths: Option<HashMap<u32, u32>>,
    /// At this launch, the stretches of each requested storage.
    stretches: HashMap<u32, Vec<AddressStretch>>,
    candidates: Vec<u32>,
    /// The stretches that answered last.
    recent: [AddressStretch; 4],
    oldest: usize,
}

/// Storages and allocations that live at one moment.
type LiveObjects = (LiveSet, LiveSet);

/// A stretch without addresses.
const NOWHERE: AddressStretch = AddressStretch { low: 1, high: 0, answer: Ok(AddressTarget::Unknown) };

impl AddressResolver {
    /// A resolver over an index.
    pub fn new(index: Arc<TensorIndex>) -> Self {
        let live = || index.runs.iter().map(|_| LiveObjects::default()).collect();
        Self {
            live: live(),
            live_in_capture: live(),
            is_in_capture: false,
            index,
            kernel_id: None,
            launch: None,
            depths: None,
            stretches: HashMap::new(),
            candidates: Vec::new(),
            recent: [NOWHERE; 4],
            oldest: 0,
        }
    }

    /// Another one over the same index.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(Arc::clone(&self.index))
    }

    /// Its lookup index.
    pub fn index(&self) -> &TensorIndex {
        &self.index
    }

    /// The current launch.
    pub fn launch(&self) -> Option<ResolverLaunch> {
        self.launch
    }

    /// Moves to a launch.
    pub fn move_to(&mut self, kernel_id: u64) {
        if self.kernel_id == Some(kernel_id) {
            return;
        }
        self.kernel_id = Some(kernel_id);
        let launch = self.index.launches.get(&kernel_id).copied();
        self.is_in_capture = launch.is_some_and(|launch| launch.is_captured());
        self.set(launch);
    }

    fn set(&mut self, launch: Option<ResolverLaunch>) {
        self.launch = launch;
        self.depths = None;
        self.stretches.clear();
        self.candidates.clear();
        self.recent = [NOWHERE; 4];
        if let Some(ResolverLaunch { run, alive_at, .. }) = launch {
            let live = if self.is_in_capture { &mut self.live_in_capture } else { &mut self.live };
            let (storages, allocations) = &mut live[run];
            storages.move_to(&self.index.runs[run].storages, alive_at);
            allocations.move_to(&self.index.runs[run].allocations, alive_at);
        }
    }

    /// Splits a request's lanes by target at the current launch.
    pub fn resolve(&mut self, request: &WarpRequest<'_>, shares: &mut Vec<LaneShare>) {
        shares.clear();
        if let Some(target) = self.whole(request.address, request.span_bytes) {
            shares.push(LaneShare { target, lane_mask: request.lane_mask });
            return;
        }
        for (lane, address) in request.addresses() {
            let target = self.target(address);
            match shares.iter_mut().find(|share| share.target == target) {
                Some(share) => share.lane_mask |= 1 << lane,
                None => shares.push(LaneShare { target, lane_mask: 1 << lane }),
            }
        }
    }

    /// Target of all lanes of a request by its span alone. None if single lanes may have others.
    #[inline]
    pub fn whole(&mut self, address: u64, span_bytes: u64) -> Option<AddressTarget> {
        let (target, _, high) = self.around(address)?;
        (address.saturating_add(span_bytes) <= high).then_some(target)
    }

    /// Target of an address, and of all others from a lowest one to below a highest one. None if views have gaps there.
    #[inline]
    pub fn around(&mut self, address: u64) -> Option<(AddressTarget, u64, u64)> {
        let AddressStretch { low, high, answer } = self.stretch(address);
        answer.ok().map(|target| (target, low, high))
    }

    /// Target of one address at the current launch.
    pub fn target(&mut self, address: u64) -> AddressTarget {
        match self.stretch(address).answer {
            Ok(target) => target,
            Err(TargetCandidates { storage, start, end }) => {
                let holds = |view: &&u32| self.index.views[**view as usize].view.holds(address);
                self.candidates[start..end]
                    .iter()
                    .find(holds)
                    .map_or(AddressTarget::Storage(storage), |&v| AddressTarget::Tensor(v))
            }
        }
    }

    /// The storage of a target.
    pub fn storage(&self, target: AddressTarget) -> Option<u32> {
        match target {
            AddressTarget::Tensor(view) => self.index.views.get(view as usize).map(|view| view.storage),
            AddressTarget::Storage(storage) => Some(storage),
            AddressTarget::Allocation(_) | AddressTarget::Unknown | AddressTarget::NotGlobal => None,
        }
    }

    /// The block of memory that holds an address at the current launch, first and last byte: a storage, or what of an
    /// allocation lies between two storages.
    pub fn block(&self, address: u64) -> Option<(u64, u64)> {
        let launch = self.launch?;
        let live = if self.is_in_capture { &self.live_in_capture } else { &self.live };
        let (storages, allocations) = live.get(launch.run)?;
        match (storages.find(address), allocations.find(address)) {
            (Ok(piece), _) => Some((piece.low, piece.high - 1)),
            (Err(gap), Ok(piece)) => Some((gap.low.max(piece.low), gap.high.min(piece.high) - 1)),
            (Err(_), Err(_)) => None,
        }
    }

    /// The allocation of the driver that holds an address at the current launch: first and past the last address.
    pub fn allocation_around(&self, address: u64) -> Option<(u64, u64)> {
        let launch = self.launch?;
        let live = if self.is_in_capture { &self.live_in_capture } else { &self.live };
        let piece = live.get(launch.run)?.1.find(address).ok()?;
        Some((piece.low, piece.high))
    }

    /// True if storages or allocations overlap at the current launch: an address is of several.
    pub fn has_overlaps(&self) -> bool {
        let live = if self.is_in_capture { &self.live_in_capture } else { &self.live };
        let live = self.launch.and_then(|launch| live.get(launch.run));
        live.is_some_and(|(storages, allocations)| storages.has_overlaps() || allocations.has_overlaps())
    }

    /// True if a live allocation of the driver lies in the same one of the chunks of addresses that the driver maps at once.
    pub fn has_neighbour(&self, address: u64, chunk_bytes: u64) -> bool {
        let Some(launch) = self.launch else { return false };
        let live = if self.is_in_capture { &self.live_in_capture } else { &self.live };
        let Some((_, allocations)) = live.get(launch.run) else { return false };
        let chunk = address / chunk_bytes;
        allocations.find(address).map_or_else(
            |gap| gap.low.saturating_sub(1) / chunk_bytes == chunk || gap.high / chunk_bytes == chunk,
            |_| true,
        )
    }

    /// The identities of a target: storage, tensor, allocation.
    pub fn ids(index: &TensorIndex, target: AddressTarget) -> (Option<u64>, Option<u64>, Option<u64>) {
        match target {
            AddressTarget::Tensor(view) => {
                let view = &index.views[view as usize];
                (Some(index.storage_ids[view.storage as usize]), Some(view.tensor_id), None)
            }
            AddressTarget::Storage(storage) => (Some(index.storage_ids[storage as usize]), None, None),
            AddressTarget::Allocation(allocation) => {
                (None, None, Some(index.allocation_ids[allocation as usize]))
            }
            AddressTarget::Unknown | AddressTarget::NotGlobal => (None, None, None),
        }
    }

    #[inline]
    fn stretch(&mut self, address: u64) -> AddressStretch {
        for stretch in self.recent {
            if stretch.low <= address && address < stretch.high {
                return stretch;
            }
        }
        let stretch = self.look_up(address);
        self.recent[self.oldest] = stretch;
        self.oldest = (self.oldest + 1) % self.recent.len();
        stretch
    }

    fn look_up(&mut self, address: u64) -> AddressStretch {
        let Some(launch) = self.launch else {
            return AddressStretch { low: 0, high: u64::MAX, answer: Ok(AddressTarget::Unknown) };
        };
        let live = if self.is_in_capture { &self.live_in_capture } else { &self.live };
        let (storages, allocations) = &live[launch.run];
        let run = &self.index.runs[launch.run];
        match (storages.find(address), allocations.find(address)) {
            (Ok(piece), _) => self.in_storage(piece, run.storage_rows[piece.life as usize], address, launch),
            (Err(gap), Ok(piece)) => AddressStretch {
                low: gap.low.max(piece.low),
                high: gap.high.min(piece.high),
                answer: Ok(AddressTarget::Allocation(run.allocation_rows[piece.life as usize])),
            },
            (Err(gap), Err(other)) => AddressStretch {
                low: gap.low.max(other.low),
                high: gap.high.min(other.high),
                answer: Ok(AddressTarget::Unknown),
            },
        }
    }

    fn in_storage(
        &mut self,
        piece: AddressPiece,
        storage: u32,
        address: u64,
        launch: ResolverLaunch,
    ) -> AddressStretch {
        if !self.stretches.contains_key(&storage) {
            let stretches = self.divide(storage, launch);
            self.stretches.insert(storage, stretches);
        }
        let stretches = &self.stretches[&storage];
        let after = stretches.partition_point(|stretch| stretch.low <= address);
        let whole = AddressStretch { low: 0, high: u64::MAX, answer: Ok(AddressTarget::Storage(storage)) };
        let stretch = after.checked_sub(1).and_then(|place| stretches.get(place)).copied().unwrap_or(whole);
        AddressStretch { low: stretch.low.max(piece.low), high: stretch.high.min(piece.high), ..stretch }
    }

    /// Divides the address space by the views of a storage, the preferred one first in each stretch.
    fn divide(&mut self, storage: u32, launch: ResolverLaunch) -> Vec<AddressStretch> {
        let order = self.preference(storage, launch);
        let index = Arc::clone(&self.index);
        let view = |place: usize| &index.views[order[place] as usize].view;
        let mut bounds: Vec<u64> = vec![0, u64::MAX];
        bounds.extend((0..order.len()).flat_map(|place| [view(place).low, view(place).high]));
        bounds.sort_unstable();
        bounds.dedup();
        let mut opening: Vec<usize> = (0..order.len()).collect();
        opening.sort_unstable_by_key(|&place| view(place).low);
        let mut opening = opening.into_iter().peekable();
        let (mut open, mut stretches) = (BTreeSet::new(), Vec::<AddressStretch>::new());
        for bound in bounds.windows(2) {
            open.retain(|&place| view(place).high > bound[0]);
            while let Some(place) = opening.next_if(|&place| view(place).low <= bound[0]) {
                open.insert(place);
            }
            let answer = self.candidates_of(&open, &order, storage);
            match stretches.last_mut() {
                Some(last) if self.same(last.answer, answer) => last.high = bound[1],
                _ => stretches.push(AddressStretch { low: bound[0], high: bound[1], answer }),
            }
        }
        stretches
    }

    /// The views to check in a stretch: those that span it, down to the first that covers all of it.
    fn candidates_of(
        &mut self,
        open: &BTreeSet<usize>,
        order: &[u32],
        storage: u32,
    ) -> Result<AddressTarget, TargetCandidates> {
        let start = self.candidates.len();
        for &place in open.iter().take(MAX_CANDIDATES) {
            let view = order[place];
            let is_dense = self.index.views[view as usize].view.is_dense;
            if is_dense && self.candidates.len() == start {
                return Ok(AddressTarget::Tensor(view));
            }
            self.candidates.push(view);
            if is_dense {
                break;
            }
        }
        let end = self.candidates.len();
        if start == end {
            Ok(AddressTarget::Storage(storage))
        } else {
            Err(TargetCandidates { storage, start, end })
        }
    }

    fn same(
        &self,
        a: Result<AddressTarget, TargetCandidates>,
        b: Result<AddressTarget, TargetCandidates>,
    ) -> bool {
        match (a, b) {
            (Ok(a), Ok(b)) => a == b,
            (Err(a), Err(b)) => self.candidates[a.start..a.end] == self.candidates[b.start..b.end],
            _ => false,
        }
    }

    /// The views of a storage that exist at the launch, the preferred one first.
    fn preference(&mut self, storage: u32, launch: ResolverLaunch) -> Vec<u32> {
        let index = Arc::clone(&self.index);
        let views = index.storage_views[storage as usize]..index.storage_views[storage as usize + 1];
        let mut order: Vec<u32> =
            views.filter(|&view| index.views[view as usize].born_ns <= launch.views_until_ns).collect();
        if order.len() > 1 {
            let depths = self.depths.get_or_insert_with(|| depths(&index, launch.op));
            // Stable: among equals the index has the preferred one first.
            order.sort_by_key(|view| depths.get(view).copied().unwrap_or(u32::MAX));
            if let Some(given) = self.kernel_id.and_then(|kernel_id| index.given.get(&kernel_id)) {
                // A view that the launch was not given may be a temporary of long ago.
                let is_given =
                    |view: &u32| given.binary_search(&index.views[*view as usize].view.low).is_ok();
                order.sort_by_key(|view| !is_given(view));
            }
        }
        order
    }
}

/// The views of an op and of its enclosing ops, with the number of ops between.
fn depths(index: &TensorIndex, op: Option<u32>) -> HashMap<u32, u32> {
    let mut depths = HashMap::new();
    let mut next = op;
    for depth in 0..DEEPEST_OP {
        let Some(op) = next else { break };
        let (start, end) = (index.op_view_starts[op as usize], index.op_view_starts[op as usize + 1]);
        for &view in &index.op_views[start as usize..end as usize] {
            depths.entry(view).or_insert(depth);
        }
        next = index.op_parents[op as usize];
    }
    depths
}
