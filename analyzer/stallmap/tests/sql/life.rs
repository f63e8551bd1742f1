//! Lifetimes of objects and trees of views against plain loops, over random captures.
//!
//! Order before launch k: allocations at k, copies at k, frees at k, and last, allocations at an address that was freed
//! at k.

use std::collections::BTreeMap;
use std::path::Path;

use stallmap::session::Session;
use stallmap_schema::id::{Address, KernelId, OpId, Pc, StorageId, TensorId};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::memory::{Memcpy, MemoryAccess};
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::tensor::{Op, OpTensor, Storage, Tensor};
use stallmap_schema::word::{AccessKind, CopyKind, Direction, Instrument, Match, OpKind, Phase, Space};
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::dice::LinearRandom;
use crate::{answer, blame};

const LAUNCHES: u64 = 20;
const STORAGES: u64 = 16;

/// One storage with its uses.
#[derive(Clone, Debug, Default)]
struct StorageUses {
    device: i32,
    address: u64,
    size: u64,
    alloc: u64,
    free: Option<u64>,
    is_reuse: bool,
    /// Launches that use it.
    launches: Vec<u64>,
    /// Ordinals of copies that read it.
    copies: Vec<u64>,
}

/// A complete program.
struct LifeProgram {
    objects: Vec<StorageUses>,
    /// Per tensor, its storage and its base tensor.
    tensors: Vec<(usize, Option<usize>)>,
    /// Launches whose accesses are recorded.
    recorded: Vec<bool>,
    is_ended: bool,
}

fn program(dice: &mut LinearRandom) -> LifeProgram {
    let recorded: Vec<bool> = (0..LAUNCHES).map(|_| dice.below(4) > 0).collect();
    let mut objects: Vec<StorageUses> = Vec::new();
    for number in 0..STORAGES {
        let alloc = dice.below(LAUNCHES);
        let free = (dice.below(4) > 0).then(|| alloc + dice.below(LAUNCHES - alloc + 1));
        let mut object = StorageUses {
            device: i32::from(dice.below(5) == 0),
            address: 0x10_0000 * (number + 1),
            size: 0x200 * (1 + dice.below(9)),
            alloc,
            free,
            ..StorageUses::default()
        };
        // Some reuse the address of one that was freed just before.
        let freed = objects.iter().find(|other| other.free == Some(alloc) && other.alloc < alloc).cloned();
        if let Some(freed) =
            freed.filter(|freed| objects.iter().all(|o| !o.is_reuse || o.address != freed.address))
        {
            object = StorageUses { is_reuse: true, address: freed.address, device: freed.device, ..object };
        }
        let end = object.free.unwrap_or(LAUNCHES);
        for launch in alloc..end {
            if object.device == 0 && dice.below(3) == 0 {
                object.launches.push(launch);
            }
        }
        for ordinal in alloc + u64::from(object.is_reuse)..=end {
            if dice.below(6) == 0 {
                object.copies.push(ordinal);
            }
        }
        objects.push(object);
    }
    let mut tensors: Vec<(usize, Option<usize>)> =
        (0..objects.len()).map(|storage| (storage, None)).collect();
    for _ in 0..12 {
        let base = usize::try_from(dice.below(tensors.len() as u64)).unwrap();
        tensors.push((tensors[base].0, Some(base)));
    }
    LifeProgram { objects, tensors, recorded, is_ended: dice.below(2) == 0 }
}

fn write(output: &Path, program: &LifeProgram, dice: &mut LinearRandom) {
    let mut writer = CaptureWriter::create(output, CaptureForm::File).unwrap();
    let run = blame::run(blame::ACCESSES, Instrument::Accesses);
    writer.append_rows([Run { exit_code: program.is_ended.then_some(0), ..run }]).unwrap();
    blame::code(&mut writer);
    let launch = |ordinal| Launch {
        run_id: blame::ACCESSES,
        op_id: Some(OpId(ordinal + 1)),
        ..blame::launch(ordinal)
    };
    writer.append_rows((0..LAUNCHES).map(launch)).unwrap();
    let seen = |ordinal| LaunchRun {
        request_count: program.recorded[usize::try_from(ordinal).unwrap()].then_some(1),
        lost_request_count: Some(0),
        ..blame::launch_run(blame::ACCESSES, ordinal, Match::Reference)
    };
    writer.append_rows((0..LAUNCHES).map(seen)).unwrap();
    writer.append_rows((0..LAUNCHES).map(|ordinal| op(ordinal + 1))).unwrap();
    writer.append_rows((1..).zip(&program.objects).map(storage)).unwrap();
    writer.append_rows((1..).zip(&program.tensors).map(|tensor| view(program, tensor))).unwrap();
    let (mut arguments, mut accesses, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for (number, object) in (1..).zip(&program.objects) {
        for &launch in &object.launches {
            if program.recorded[usize::try_from(launch).unwrap()] {
                accesses.push(access(launch, object.address, dice));
            } else {
                arguments.push(argument(launch + 1, number));
            }
        }
        copies.extend(object.copies.iter().map(|&ordinal| copy(ordinal, object.address)));
    }
    accesses.sort_by_key(|row| (row.kernel_id, row.pc, row.sequence));
    arguments.sort_by_key(|row| (row.op_id, row.position));
    copies.sort_by_key(|row| row.begin_ns);
    writer.append_rows(arguments).unwrap();
    writer.append_rows(copies).unwrap();
    writer.append_rows(accesses).unwrap();
    writer.finish().unwrap();
}

fn op(number: u64) -> Op {
    Op {
        op_id: OpId(number),
        run_id: blame::ACCESSES,
        kind: OpKind::Torch,
        name: "aten::op".to_owned(),
        phase: Phase::Forward,
        ..Op::default()
    }
}

fn storage((number, object): (u64, &StorageUses)) -> Storage {
    let ns = |ordinal: u64, part: u64| i64::try_from(ordinal * 100 + part).unwrap();
    Storage {
        device_id: object.device,
        size_bytes: object.size,
        alloc_ns: ns(object.alloc, if object.is_reuse { 90 } else { 1 }),
        free_ns: object
            .free
            .map(|free| ns(free, if free == object.alloc && object.is_reuse { 95 } else { 80 })),
        alloc_ordinal: object.alloc,
        free_ordinal: object.free,
        ..blame::storage(number, object.address)
    }
}

fn view(program: &LifeProgram, (number, &(storage, base)): (u64, &(usize, Option<usize>))) -> Tensor {
    let object = &program.objects[storage];
    Tensor {
        storage_id: StorageId(storage as u64 + 1),
        base_tensor_id: base.map(|base| TensorId(base as u64 + 1)),
        span_bytes: object.size,
        sizes: vec![i64::try_from(object.size / 4).unwrap()],
        ..blame::tensor(number, object.address)
    }
}

fn access(launch: u64, address: u64, dice: &mut LinearRandom) -> MemoryAccess {
    let is_read = dice.below(2) == 0;
    MemoryAccess {
        kernel_id: KernelId(launch),
        function_id: blame::function(),
        pc: Pc(if is_read { 0x50 } else { 0x120 }),
        sequence: address,
        kind: if is_read { AccessKind::Read } else { AccessKind::Write },
        space: Space::Global,
        access_bytes: 4,
        lane_mask: u32::MAX,
        address: Address(address),
        span_bytes: 128,
        stride_bytes: Some(4),
        ..MemoryAccess::default()
    }
}

fn argument(op: u64, number: u64) -> OpTensor {
    OpTensor {
        op_id: OpId(op),
        direction: Direction::In,
        position: u32::try_from(number).unwrap(),
        element: 0,
        tensor_id: TensorId(number),
        argument: None,
    }
}

/// A copy from a storage to the host.
fn copy(ordinal: u64, address: u64) -> Memcpy {
    Memcpy {
        run_id: blame::ACCESSES,
        kind: CopyKind::DeviceToHost,
        source: Address(address + 4),
        destination: Address(1),
        size_bytes: 64,
        stream_id: 0,
        ordinal,
        begin_ns: i64::try_from(ordinal * 100 + 50).unwrap(),
        ..Memcpy::default()
    }
}

/// Uses as (begin, end) in ordinals, in their order.
fn uses(object: &StorageUses) -> Vec<(u64, u64)> {
    let mut uses: Vec<(u64, u64)> = object.launches.iter().map(|&launch| (launch, launch + 1)).collect();
    uses.extend(object.copies.iter().map(|&copy| (copy, copy)));
    uses.sort_unstable();
    uses
}

/// The longest time without use between two uses.
fn idle(object: &StorageUses) -> u64 {
    let uses = uses(object);
    uses.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1)).max().unwrap_or(0)
}

fn life(number: u64, object: &StorageUses) -> String {
    let uses = uses(object);
    let shown = |ordinal: Option<u64>| ordinal.map_or("NULL".to_owned(), |ordinal| ordinal.to_string());
    let (first, last) = (uses.first().map(|first| first.0), uses.iter().map(|one| one.1).max());
    let (launches, copies) = (object.launches.len(), object.copies.len());
    let idle = idle(object);
    format!("{number} | {} | {} | {launches} | {copies} | {idle}", shown(first), shown(last))
}

/// The start of the longest time without use between two uses.
fn idle_ordinal(object: &StorageUses) -> u64 {
    let (uses, longest) = (uses(object), idle(object));
    let found = uses.windows(2).find(|pair| pair[1].0.saturating_sub(pair[0].1) == longest);
    found.map_or(0, |pair| pair[0].1)
}

/// True if a launch between two ordinals may have used an object: its accesses are not recorded, and its op has no
/// tensors, or the object is not one of them anywhere.
fn is_blind(program: &LifeProgram, object: &StorageUses, (from, to): (u64, u64)) -> bool {
    let is_recorded = |launch: u64| program.recorded[usize::try_from(launch).unwrap()];
    let is_argument = object.launches.iter().any(|&launch| !is_recorded(launch));
    let has_arguments = |launch: u64| program.objects.iter().any(|object| object.launches.contains(&launch));
    (from..to).any(|launch| !(is_recorded(launch) || is_argument && has_arguments(launch)))
}

fn patterns(program: &LifeProgram) -> Vec<String> {
    let mut rows = Vec::new();
    for (number, object) in (1_u64..).zip(&program.objects) {
        let mut unknown = None;
        let mut say = |pattern: &str, from: u64, to: u64| {
            let is_absence = !["never freed", "recording ended", "reusable allocation"].contains(&pattern);
            if is_absence && is_blind(program, object, (from, to)) {
                unknown = unknown.max(Some(to - from));
            } else {
                rows.push(format!("{pattern} | {number} | {}", to - from));
            }
        };
        let uses = uses(object);
        let end = object.free.unwrap_or(LAUNCHES);
        let last = uses.iter().map(|one| one.1).max();
        if uses.is_empty() {
            say("unused", object.alloc, end);
        } else if object.launches.is_empty() {
            say("only copied", object.alloc, end);
        }
        if uses.first().is_some_and(|first| first.0 > object.alloc) {
            say("early allocation", object.alloc, uses[0].0);
        }
        if idle(object) > 0 {
            say("idle", idle_ordinal(object), idle_ordinal(object) + idle(object));
        }
        if object.free.is_none() {
            let pattern = if program.is_ended { "never freed" } else { "recording ended" };
            say(pattern, last.unwrap_or(object.alloc), end);
        } else if last.is_some_and(|last| last < end) {
            say("late free", last.unwrap(), end);
        }
        if let Some(first) = uses.first()
            && program.objects.iter().zip(1..).any(|(other, place)| {
                let done = self::uses(other).iter().map(|one| one.1).max();
                place != number
                    && other.device == object.device
                    && other.size >= object.size
                    && done.is_some_and(|done| done <= first.0)
                    && other.alloc <= object.alloc
                    && other.free.unwrap_or(LAUNCHES) > object.alloc
            })
        {
            say("reusable allocation", object.alloc, end);
        }
        rows.extend(unknown.map(|launches| format!("use unknown | {number} | {launches}")));
    }
    rows.sort();
    rows
}

/// Memory in use at each launch of a device, as (bytes, objects).
fn memory(program: &LifeProgram) -> BTreeMap<(i32, u64), (u64, u64)> {
    let mut memory = BTreeMap::new();
    for object in &program.objects {
        for launch in 0..LAUNCHES {
            let live: &mut (u64, u64) = memory.entry((object.device, launch)).or_default();
            if object.alloc <= launch && launch < object.free.unwrap_or(LAUNCHES) {
                *live = (live.0 + object.size, live.1 + 1);
            }
        }
    }
    memory
}

#[tokio::test]
async fn lives_are_what_plain_loops_give() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..7 {
        let path = folder.path().join(format!("{seed}.stallmap"));
        let mut dice = LinearRandom(seed);
        let program = program(&mut dice);
        write(&path, &program, &mut dice);
        let session = Session::open(&[(None, path)]).unwrap();
        let ask = async |sql: &str| answer(&session, sql).await.unwrap();

        let expected = memory(&program);
        let rows: Vec<String> = expected
            .iter()
            .map(|((device, ordinal), (bytes, objects))| {
                format!("{device} | {ordinal} | {bytes} | {objects}")
            })
            .collect();
        let given = "SELECT device_id, ordinal, live_bytes, object_count FROM memory_in_use ORDER BY 1, 2";
        assert_eq!(ask(given).await, rows, "seed {seed}");

        let given = "SELECT storage_id, first_use_ordinal, last_use_ordinal, use_count, copy_count, idle_launches \
            FROM object_life ORDER BY storage_id";
        let rows: Vec<String> =
            (1..).zip(&program.objects).map(|(number, object)| life(number, object)).collect();
        assert_eq!(ask(given).await, rows, "seed {seed}");

        let given = "SELECT pattern, storage_id, launches FROM life_pattern WHERE pattern <> 'dead write'";
        let mut given = ask(given).await;
        given.sort();
        assert_eq!(given, patterns(&program), "seed {seed}");

        assert_eq!(
            ask("SELECT device_id, ordinal, live_bytes FROM memory_peak ORDER BY 1").await,
            peaks(&program)
        );
        let live = "SELECT l.device_id, sum(l.size_bytes) - max(p.live_bytes) FROM object_life l \
            JOIN memory_peak p USING (device_id) WHERE l.is_live_at_peak GROUP BY 1";
        assert!(ask(live).await.iter().all(|row| row.ends_with("| 0")), "seed {seed}");
    }
}

/// The first launch of each device before which most memory was in use.
fn peaks(program: &LifeProgram) -> Vec<String> {
    // Frees of a moment come before its allocations.
    let mut events: BTreeMap<(i32, u64, i64, bool), i64> = BTreeMap::new();
    for object in (1..).zip(&program.objects).map(storage) {
        let bytes = object.size_bytes.cast_signed();
        *events.entry((object.device_id, object.alloc_ordinal, object.alloc_ns, true)).or_default() += bytes;
        if let Some((ordinal, ns)) = object.free_ordinal.zip(object.free_ns) {
            *events.entry((object.device_id, ordinal, ns, false)).or_default() -= bytes;
        }
    }
    let mut peaks: BTreeMap<i32, (u64, i64, i64)> = BTreeMap::new();
    for (&(device, ordinal, ..), bytes) in &events {
        let (at, most, live) = peaks.entry(device).or_default();
        *live += bytes;
        if *live > *most && ordinal < LAUNCHES {
            (*at, *most) = (ordinal, *live);
        }
    }
    peaks.iter().map(|(device, (at, most, _))| format!("{device} | {at} | {most}")).collect()
}

#[tokio::test]
async fn trees_are_what_plain_loops_give() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..4 {
        let path = folder.path().join(format!("{seed}.stallmap"));
        let mut dice = LinearRandom(seed);
        let program = program(&mut dice);
        write(&path, &program, &mut dice);
        let session = Session::open(&[(None, path)]).unwrap();
        let mut rows = Vec::new();
        for tensor in 0..program.tensors.len() {
            let mut above = std::iter::successors(Some(tensor), |&tensor| program.tensors[tensor].1);
            let root = above.clone().last().unwrap();
            let depth = above.by_ref().count() - 1;
            let base = program.tensors[tensor].1.map_or("NULL".to_owned(), |base| (base + 1).to_string());
            rows.push(format!("{} | {} | {base} | {depth}", tensor + 1, root + 1));
        }
        let given =
            "SELECT tensor_id, root_tensor_id, base_tensor_id, depth FROM tensor_node ORDER BY tensor_id";
        assert_eq!(answer(&session, given).await.unwrap(), rows, "seed {seed}");
    }
}
