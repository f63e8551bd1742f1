//! Accesses that no live memory holds, or not the memory that the launch was given.
//!
//! A defect is named only where the capture proves it: memory that no instrument saw has no defects.

use std::collections::HashSet;
use std::sync::Arc;

use crate::memory::pieces::MemoryObject;
use arrow::array::{AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::word::{OpKind, StorageOrigin};

use super::index::{RunLives, column, wrong};
use super::life::{MemoryLife, MemoryLives};
use super::parameters;
use super::request::WarpRequest;
use super::resolve::{AddressResolver, AddressTarget};

/// Flags of allocations that others than launches and copies write: a module's variables, managed memory, memory of the
/// host or another GPU, and what the driver needs at run time.
const OTHERS_WRITE: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80;
/// Maximum of bytes from a pointer among the parameters to an address that is taken as reached from it.
const MAX_DISTANCE: u64 = 16 << 20;
/// Bytes of memory that the driver maps at once.
const CHUNK_BYTES: u64 = 2 << 20;
/// Maximum of lanes per launch that are judged one by one.
const MAX_JUDGED: u32 = 1 << 16;

/// Columns of `op`.
pub const OP: [&str; 1] = ["kind"];
/// Columns of `storage`.
pub const STORAGE: [&str; 4] = ["run_id", "address", "size_bytes", "origin"];
/// Columns of `device_allocation`.
pub const ALLOCATION: [&str; 4] = ["run_id", "address", "size_bytes", "flags"];

/// The rows of these tables.
#[derive(Debug)]
pub struct FaultTables {
    /// Ops.
    pub op: RecordBatch,
    /// Storages.
    pub storage: RecordBatch,
    /// Allocations of the driver.
    pub allocation: RecordBatch,
    /// Parameters of launches, [`parameters::COLUMNS`] of them.
    pub launch_parameter: RecordBatch,
}

/// By function and pc of an access: offsets of the pointers among the kernel's parameters from which its address is computed.
pub type CodePointers = HashMap<(u64, u32), Vec<u32>>;

/// Facts of a capture that decide whether an access is a defect.
#[derive(Debug, Default)]
pub struct FaultFacts {
    /// Per op, true for a Triton kernel: its tensors are the kernel's arguments.
    is_triton: Vec<bool>,
    /// The words of each launch's parameters.
    words: HashMap<u64, Vec<u64>>,
    /// Allocations that a framework divides into storages, all of which it reported.
    pools: HashSet<u32>,
    /// Memory of which every write is a launch's, a copy's or a fill's, since its allocation.
    known_writers: HashSet<MemoryObject>,
}

impl FaultFacts {
    /// From the rows of the tables.
    pub fn new(tables: &FaultTables) -> Result<Self> {
        let is_triton = texts(&tables.op, "kind")?.into_iter().map(|kind| kind == OpKind::Triton.word());
        let words = parameters::words(&tables.launch_parameter, |_| true)?.into_iter().collect();
        let mut facts = Self { is_triton: is_triton.collect(), words, ..Self::default() };
        let origins = texts(&tables.storage, "origin")?;
        let is_reported: Vec<bool> =
            origins.iter().map(|origin| origin == StorageOrigin::Allocator.word()).collect();
        let storages = (0..).zip(&is_reported).filter(|(_, is_reported)| **is_reported);
        facts.known_writers.extend(storages.map(|(storage, _)| MemoryObject::Storage(storage)));
        let ranges = ranges(&tables.storage)?;
        let mut by_address: Vec<(u32, u64, bool)> =
            ranges.iter().zip(&is_reported).map(|(&(run, low, _), &is)| (run, low, is)).collect();
        by_address.sort_unstable();
        let flags = column::<UInt32Type>(&tables.allocation, "flags")?;
        for ((run, low, high), (row, allocation)) in
            self::ranges(&tables.allocation)?.into_iter().zip((0..).zip(0_u32..))
        {
            let start = by_address.partition_point(|&(of, address, _)| (of, address) < (run, low));
            let held =
                by_address[start..].iter().take_while(|&&(of, address, _)| of == run && address < high);
            let held: Vec<bool> = held.map(|&(.., is_reported)| is_reported).collect();
            if held.is_empty() {
                if flags.value(row) & OTHERS_WRITE == 0 {
                    facts.known_writers.insert(MemoryObject::Allocation(allocation));
                }
            } else if held.iter().all(|is_reported| *is_reported) {
                facts.pools.insert(allocation);
            }
        }
        Ok(facts)
    }

    /// True if every write to an object is known but for launches that were not observed.
    pub fn knows_writers(&self, object: MemoryObject) -> bool {
        self.known_writers.contains(&object)
    }

    fn words(&self, kernel_id: u64) -> &[u64] {
        self.words.get(&kernel_id).map(Vec::as_slice).unwrap_or_default()
    }
}

fn texts(table: &RecordBatch, name: &str) -> Result<Vec<String>> {
    let texts = cast(table.column_by_name(name).ok_or_else(|| wrong(name))?, &DataType::Utf8)?;
    let texts = texts.as_string_opt::<i32>().ok_or_else(|| wrong(name))?;
    Ok(texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect())
}

/// Run, first and past the last address of each row.
fn ranges(table: &RecordBatch) -> Result<Vec<(u32, u64, u64)>> {
    let runs = column::<UInt32Type>(table, "run_id")?;
    let lows = column::<UInt64Type>(table, "address")?;
    let sizes = column::<UInt64Type>(table, "size_bytes")?;
    let range = |row| (runs.value(row), lows.value(row), lows.value(row).saturating_add(sizes.value(row)));
    Ok((0..table.num_rows()).map(range).collect())
}

/// The way in which an address is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressDefect {
    /// In no live allocation of the driver.
    OutsideAllocation,
    /// In an allocation that a framework divides, and in no live storage.
    OutsideStorage,
    /// In the storage of a tensor that the kernel was given, and in no such tensor.
    OutsideView,
    /// In live memory behind that of the pointer from which the address is computed.
    OtherMemory,
    /// In memory that was freed before the launch.
    AfterFree,
    /// At an address that its bytes do not divide: the GPU ends the launch.
    Misaligned,
}

impl AddressDefect {
    /// Its text in tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::OutsideAllocation => "outside every allocation",
            Self::OutsideStorage => "outside every tensor",
            Self::OutsideView => "outside the view",
            Self::OtherMemory => "in other memory",
            Self::AfterFree => "after free",
            Self::Misaligned => "misaligned",
        }
    }
}

/// Some lanes of a warp request whose accesses are wrong in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultShare {
    /// The defect.
    pub defect: AddressDefect,
    /// The memory that was meant: the one that a parameter points to nearest to the address. Of freed memory this.
    pub target: AddressTarget,
    /// The lanes.
    pub lane_mask: u32,
    /// The first wrong byte of the lowest of them.
    pub address: u64,
}

/// Judges the accesses of one launch after the other.
#[derive(Debug)]
pub struct FaultSearch {
    resolver: AddressResolver,
    facts: Arc<FaultFacts>,
    kernel_id: Option<u64>,
    /// True if the launch's op names the kernel's arguments.
    is_triton: bool,
    is_captured: bool,
    /// Per storage, the views that the launch was given.
    given: HashMap<u32, Vec<u32>>,
    /// By offset among the parameters: the memory that a pointer leads to.
    pointed: HashMap<u32, Option<PointedMemory>>,
    judged: u32,
}

/// Memory that a pointer among the parameters leads to.
#[derive(Clone, Copy, Debug)]
struct PointedMemory {
    target: AddressTarget,
    /// Its first and last byte.
    first: u64,
    last: u64,
}

impl FaultSearch {
    /// A search over an index.
    pub fn new(resolver: AddressResolver, facts: Arc<FaultFacts>) -> Self {
        Self {
            resolver,
            facts,
            kernel_id: None,
            is_triton: false,
            is_captured: false,
            given: HashMap::new(),
            pointed: HashMap::new(),
            judged: 0,
        }
    }

    /// The resolver.
    pub fn resolver(&self) -> &AddressResolver {
        &self.resolver
    }

    /// Moves to a launch.
    pub fn move_to(&mut self, kernel_id: u64) {
        if self.kernel_id == Some(kernel_id) {
            return;
        }
        self.kernel_id = Some(kernel_id);
        self.resolver.move_to(kernel_id);
        let launch = self.resolver.launch();
        self.is_captured = launch.is_none_or(|launch| launch.is_captured());
        let op = launch.and_then(|launch| launch.op);
        self.is_triton = op.is_some_and(|op| self.facts.is_triton.get(op as usize) == Some(&true));
        self.given.clear();
        self.pointed.clear();
        self.judged = 0;
    }

    /// The wrong accesses of a warp request, whose address is computed from some pointers among the parameters.
    pub fn find(&mut self, request: &WarpRequest<'_>, pointers: &[u32], found: &mut Vec<FaultShare>) {
        found.clear();
        if self.is_captured || request.access_bytes == 0 {
            return;
        }
        let (pointed, is_aligned) = (self.pointed(pointers), request.is_aligned());
        let past = request.address.saturating_add(request.span_bytes);
        if is_aligned
            && pointed.is_none_or(|pointed| past <= pointed.last)
            && let Some(target) = self.resolver.whole(request.address, request.span_bytes)
            && self.is_right(target)
        {
            return;
        }
        for (lane, address) in request.addresses() {
            let wrong = if is_aligned || address.is_multiple_of(request.access_bytes) {
                let mut bytes = address..address.saturating_add(request.access_bytes);
                bytes.find_map(|byte| self.wrong_byte(byte, pointed, pointers.is_empty()))
            } else {
                Some((AddressDefect::Misaligned, self.resolver.target(address), address))
            };
            let Some((defect, target, byte)) = wrong else { continue };
            let same = |share: &&mut FaultShare| share.defect == defect && share.target == target;
            match found.iter_mut().find(same) {
                Some(share) => share.lane_mask |= 1 << lane,
                None => found.push(FaultShare { defect, target, lane_mask: 1 << lane, address: byte }),
            }
        }
    }

    /// The defect of an access to a byte, the memory that was meant, and the byte.
    fn wrong_byte(
        &mut self,
        byte: u64,
        pointed: Option<PointedMemory>,
        is_loaded: bool,
    ) -> Option<(AddressDefect, AddressTarget, u64)> {
        let target = self.resolver.target(byte);
        let is_unknown = target == AddressTarget::Unknown;
        let is_other = is_unknown || self.is_known(target);
        // Other memory before it may be reached through a second pointer.
        let outside =
            pointed.filter(|pointed| byte > pointed.last && is_other || byte < pointed.first && is_unknown);
        if outside.is_none() && self.is_right(target) {
            return None;
        }
        self.judged += 1;
        if self.judged > MAX_JUDGED {
            return None;
        }
        let (defect, target) = match outside {
            Some(pointed) if is_unknown => (AddressDefect::OutsideAllocation, pointed.target),
            Some(pointed) => (AddressDefect::OtherMemory, pointed.target),
            None => self.judge(byte, target, is_loaded)?,
        };
        Some((defect, target, byte))
    }

    /// The memory behind whose end an address that is computed from some pointers is wrong. Only if there is one: a second may
    /// be a distance to other memory.
    fn pointed(&mut self, pointers: &[u32]) -> Option<PointedMemory> {
        let [offset] = *pointers else { return None };
        if let Some(known) = self.pointed.get(&offset) {
            return *known;
        }
        let word = self.words().get(offset as usize / parameters::WORD_BYTES).copied();
        let pointed = word.and_then(|word| {
            let target = self.resolver.target(word);
            let is_clear = self.is_known(target) && !self.resolver.has_overlaps();
            let (first, last) = self.resolver.block(word).filter(|_| is_clear)?;
            Some(PointedMemory { target, first, last })
        });
        self.pointed.insert(offset, pointed);
        pointed
    }

    /// True for memory that its allocator reported as a whole: a storage, or an allocation of no framework.
    fn is_known(&self, target: AddressTarget) -> bool {
        let object = match target {
            AddressTarget::Allocation(allocation) => Some(MemoryObject::Allocation(allocation)),
            target => self.resolver.storage(target).map(MemoryObject::Storage),
        };
        object.is_some_and(|object| self.facts.knows_writers(object))
    }

    /// True if accesses to a target cannot be wrong.
    fn is_right(&mut self, target: AddressTarget) -> bool {
        match target {
            AddressTarget::Tensor(view) => {
                let Some(storage) = self.resolver.storage(target).filter(|_| self.is_triton) else {
                    return true;
                };
                let given = self.given(storage);
                given.is_empty() || given.contains(&view)
            }
            AddressTarget::Storage(storage) => self.given(storage).is_empty(),
            AddressTarget::Allocation(allocation) => !self.facts.pools.contains(&allocation),
            AddressTarget::Unknown => false,
            AddressTarget::NotGlobal => true,
        }
    }

    /// The views of a storage that the launch was given. Without an op, those that its parameters point to.
    fn given(&mut self, storage: u32) -> &[u32] {
        if !self.given.contains_key(&storage) {
            let views = self.find_given(storage);
            self.given.insert(storage, views);
        }
        self.given.get(&storage).map(Vec::as_slice).unwrap_or_default()
    }

    fn find_given(&self, storage: u32) -> Vec<u32> {
        let index = self.resolver.index();
        let Some(launch) = self.resolver.launch() else { return Vec::new() };
        let of_storage =
            |view: &u32| index.views.get(*view as usize).is_some_and(|view| view.storage == storage);
        match launch.op {
            Some(op) if self.is_triton => {
                let bound =
                    |place: u32| index.op_view_starts.get(place as usize).map_or(0, |start| *start as usize);
                let views = index.op_views.get(bound(op)..bound(op + 1)).unwrap_or_default();
                views.iter().copied().filter(of_storage).collect()
            }
            Some(_) => Vec::new(),
            None => {
                let words = self.words();
                let bound = |place: u32| index.storage_views.get(place as usize).copied().unwrap_or(0);
                let is_given = |view: &u32| {
                    index.views.get(*view as usize).is_some_and(|indexed| {
                        indexed.born_ns <= launch.views_until_ns && words.contains(&indexed.view.low)
                    })
                };
                (bound(storage)..bound(storage + 1)).filter(is_given).collect()
            }
        }
    }

    fn words(&self) -> &[u64] {
        self.kernel_id.map_or(&[], |kernel_id| self.facts.words(kernel_id))
    }

    /// The defect of an address outside of what the launch may access, which may be loaded from memory. None if the capture
    /// does not prove one.
    fn judge(
        &mut self,
        address: u64,
        target: AddressTarget,
        is_loaded: bool,
    ) -> Option<(AddressDefect, AddressTarget)> {
        match target {
            AddressTarget::Tensor(_) | AddressTarget::Storage(_) => {
                let storage = self.resolver.storage(target)?;
                let given = self.given(storage).to_vec();
                let views = &self.resolver.index().views;
                let low = |view: &&u32| views.get(**view as usize).map_or(u64::MAX, |view| view.view.low);
                // The last one that begins before it.
                let nearest =
                    given.iter().min_by_key(|view| (low(view) > address, low(view).abs_diff(address)))?;
                Some((AddressDefect::OutsideView, AddressTarget::Tensor(*nearest)))
            }
            AddressTarget::Allocation(allocation) => {
                if let Some(storage) =
                    self.freed(address, is_loaded, |run| (&run.storages, &run.storage_rows))
                {
                    return Some((AddressDefect::AfterFree, AddressTarget::Storage(storage)));
                }
                let (low, high) = self.block_of(allocation)?;
                let (meant, _) = self.meant(address, (low, high))?;
                self.resolver.storage(meant)?;
                Some((AddressDefect::OutsideStorage, meant))
            }
            AddressTarget::Unknown => {
                // Elsewhere may be memory that no instrument reports.
                let is_loaded = is_loaded && self.resolver.has_neighbour(address, CHUNK_BYTES);
                let freed = self.freed(address, is_loaded, |run| (&run.allocations, &run.allocation_rows));
                if let Some(allocation) = freed {
                    return Some((AddressDefect::AfterFree, AddressTarget::Allocation(allocation)));
                }
                let around = (address.saturating_sub(MAX_DISTANCE), address.saturating_add(MAX_DISTANCE));
                let (meant, word) = self.meant(address, around)?;
                // The driver divides chunks among allocations of one kind. Elsewhere may be memory of another kind.
                let (low, high) = self.resolver.allocation_around(word)?;
                let is_near = low / CHUNK_BYTES <= address / CHUNK_BYTES
                    && address / CHUNK_BYTES <= (high - 1) / CHUNK_BYTES;
                is_near.then_some((AddressDefect::OutsideAllocation, meant))
            }
            AddressTarget::NotGlobal => None,
        }
    }

    fn block_of(&self, allocation: u32) -> Option<(u64, u64)> {
        let launch = self.resolver.launch()?;
        let run = self.resolver.index().runs.get(launch.run)?;
        let life = run.allocation_rows.iter().position(|row| *row == allocation)?;
        let life = run.allocations.get(u32::try_from(life).ok()?);
        Some((life.low, life.high))
    }

    /// The memory that the nearest pointer among the parameters leads to, of those in a range, and that pointer. None if it
    /// leads to memory that no instrument saw.
    fn meant(&mut self, address: u64, (low, high): (u64, u64)) -> Option<(AddressTarget, u64)> {
        let words = self.words().iter().copied().filter(|word| (low..high).contains(word));
        let nearest = words.min_by_key(|word| (*word > address, word.abs_diff(address)))?;
        let target = self.resolver.target(nearest);
        (!matches!(target, AddressTarget::Unknown | AddressTarget::NotGlobal)).then_some((target, nearest))
    }

    /// The memory at an address that was freed last before the launch, if a parameter points to it or the pointer was loaded.
    fn freed<'a>(
        &'a self,
        address: u64,
        is_loaded: bool,
        of: impl Fn(&'a RunLives) -> (&'a MemoryLives, &'a Vec<u32>),
    ) -> Option<u32> {
        let launch = self.resolver.launch()?;
        let (lives, rows) = of(self.resolver.index().runs.get(launch.run)?);
        let words = self.words();
        let is_meant = |life: &MemoryLife| {
            life.dead <= launch.alive_at
                && (life.low..life.high).contains(&address)
                && (is_loaded || words.iter().any(|word| (life.low..life.high).contains(word)))
        };
        let freed = (0..).zip(rows).filter(|(life, _)| is_meant(lives.get(*life)));
        freed.max_by_key(|(life, _)| (lives.get(*life).dead, *life)).map(|(_, row)| *row)
    }
}
