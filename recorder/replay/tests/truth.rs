//! Experiments on recorded programs whose loads are known: which can be left out, and why others cannot.
#![expect(clippy::unwrap_used, reason = "a committed capture that cannot be read is a broken test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use stallmap_replay::ablate::{
    Experiment, ExperimentKinds, FunctionCubin, InstructionAddress, LaunchAccesses, LaunchMemory, TouchedPage,
};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::code::Function;
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::memory::DeviceAllocation;
use stallmap_schema::tables::tensor::Storage;

fn capture(name: &str) -> CaptureReader {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    CaptureReader::open(&path).unwrap_or_else(|error| panic!("{}: {error}", PathBuf::from(name).display()))
}

/// The experiments on the first launch of each kernel, by the kernel's name.
fn experiments(name: &str, targets: ExperimentKinds) -> BTreeMap<String, Vec<Experiment>> {
    let capture = capture(name);
    let functions: BTreeMap<_, _> =
        capture.read_rows::<Function>().unwrap().into_iter().map(|row| (row.function_id, row.name)).collect();
    let mut first: BTreeMap<String, KernelId> = BTreeMap::new();
    for launch in capture.read_rows::<Launch>().unwrap() {
        first.entry(functions[&launch.function_id].clone()).or_insert(launch.kernel_id);
    }
    let kernels: BTreeSet<KernelId> = first.values().copied().collect();
    let all = LaunchAccesses::read(&capture, &kernels).unwrap();
    first.into_iter().map(|(name, id)| (name, all.experiments(&capture, id, targets).unwrap())).collect()
}

/// Made once: three tests look at them.
static LATENCY: LazyLock<BTreeMap<String, Vec<Experiment>>> =
    LazyLock::new(|| experiments("latency_truth.stallmap", ALL));

const ALL: ExperimentKinds = ExperimentKinds { tensors: true, lines: true, instructions: true };

fn experiments_of<'a>(all: &'a BTreeMap<String, Vec<Experiment>>, name: &str) -> &'a [Experiment] {
    let found = all.iter().find(|(mangled, _)| mangled.contains(name));
    found.map_or_else(|| panic!("{name} in {:?}", all.keys()), |(_, experiments)| experiments)
}

/// The reasons of refused experiments on tensors, and how many are made.
fn tensors(experiments: &[Experiment]) -> (Vec<&str>, usize) {
    let of_tensors = experiments.iter().filter(|one| one.target == "tensor");
    let refused: Vec<&str> = of_tensors.clone().filter_map(|one| one.refusal.as_deref()).collect();
    let made = of_tensors.count() - refused.len();
    (refused, made)
}

#[test]
fn loads_that_are_only_added_can_be_left_out() {
    let all = &*LATENCY;
    // Two buffers are read, and one is written.
    for kernel in ["two_levels", "two_streams", "past_l1", "shared_global", "copies"] {
        assert_eq!(tensors(experiments_of(all, kernel)), (vec![], 3), "{kernel}");
        assert!(experiments_of(all, kernel).iter().all(|one| !one.is_counted), "{kernel}");
    }
}

#[test]
fn an_index_into_a_small_table_can_be_left_out_if_the_work_stays_the_same() {
    let all = &*LATENCY;
    let pipelined = experiments_of(all, "pipelined");
    assert_eq!(tensors(pipelined), (vec![], 3));
    let counted = pipelined.iter().filter(|one| one.target == "tensor" && one.is_counted).count();
    assert_eq!(counted, 2, "both loads reach the index of the small table");
}

#[test]
fn pointers_and_indices_are_not_left_out() {
    let all = &experiments("known_truth.stallmap", ALL);
    for kernel in ["chase", "chase_loop", "gather", "histogram"] {
        let (refused, _) = tensors(experiments_of(all, kernel));
        assert!(
            refused.iter().any(|reason| reason.contains("address of an access")),
            "{kernel}: {refused:?}"
        );
    }
    let (refused, made) = tensors(experiments_of(all, "copy_unit"));
    assert_eq!((refused, made), (vec![], 2));
}

#[test]
fn only_guards_change() {
    let capture = capture("latency_truth.stallmap");
    let all = &*LATENCY;
    let experiment = experiments_of(all, "pipelined").iter().find(|one| one.refusal.is_none()).unwrap();
    let hash = capture.manifest().files.iter().find_map(|file| file.path.strip_prefix("cubins/")).unwrap();
    let cubin = capture.cubin(hash.split_once('.').unwrap().0).unwrap();
    let code = FunctionCubin::read(&cubin).unwrap();
    let without = code.without(&experiment.addresses());
    assert_eq!(without.len(), cubin.len());
    let changed: Vec<usize> = (0..cubin.len()).filter(|&at| cubin[at] != without[at]).collect();
    assert_eq!(changed.len(), experiment.instructions.len());
    // The guard is in the upper half of an instruction's second byte.
    assert!(
        changed.iter().all(|at| at % 16 == 1 && without[*at] & 0xf0 == 0xf0 && cubin[*at] & 0xf0 != 0xf0)
    );
    let nowhere = InstructionAddress { function: "nowhere".to_owned(), pc: 0 };
    assert_eq!(code.without(&[nowhere].into()), cubin);
}

#[test]
fn tensors_that_share_instructions_are_left_out_together() {
    let all = &experiments(
        "transformer_step.stallmap",
        ExperimentKinds { lines: false, instructions: false, ..ALL },
    );
    let mut groups = 0;
    for experiments in all.values() {
        let shared = |one: &&Experiment| {
            one.target == "tensor" && one.refusal.as_deref().is_some_and(|reason| reason.contains("together"))
        };
        let together = experiments.iter().filter(|one| one.target == "tensors");
        let together: Vec<BTreeSet<InstructionAddress>> = together.map(Experiment::addresses).collect();
        for alone in experiments.iter().filter(shared) {
            let addresses = alone.addresses();
            let with = together.iter().filter(|group| addresses.is_subset(group)).count();
            assert_eq!(with, 1, "{alone:?}");
        }
        // No instruction is in two groups.
        let addresses: usize = together.iter().map(BTreeSet::len).sum();
        assert_eq!(addresses, together.iter().flatten().collect::<BTreeSet<_>>().len());
        groups += together.len();
    }
    assert!(groups > 0);
}

/// The redirect experiments on the first launch of each kernel, by the kernel's name. The pages of every block of
/// memory count as touched, as in bundles of kernels with copies by tensor maps.
fn redirects(name: &str) -> BTreeMap<String, Vec<Experiment>> {
    let capture = capture(name);
    let functions: BTreeMap<_, _> =
        capture.read_rows::<Function>().unwrap().into_iter().map(|row| (row.function_id, row.name)).collect();
    let mut first: BTreeMap<String, KernelId> = BTreeMap::new();
    for launch in capture.read_rows::<Launch>().unwrap() {
        first.entry(functions[&launch.function_id].clone()).or_insert(launch.kernel_id);
    }
    let kernels: BTreeSet<KernelId> = first.values().copied().collect();
    let accesses = LaunchAccesses::read(&capture, &kernels).unwrap();
    let memory = LaunchMemory::read(&capture, &accesses, &kernels).unwrap();
    let storages =
        capture.read_rows::<Storage>().unwrap().into_iter().map(|row| (row.address.0, row.size_bytes));
    let allocations = capture.read_rows::<DeviceAllocation>().unwrap();
    let allocations = allocations.into_iter().map(|row| (row.address.0, row.size_bytes));
    let pages: BTreeSet<u64> = storages
        .chain(allocations)
        .flat_map(|(low, bytes)| (low / 4096 * 4096..low + bytes).step_by(4096))
        .collect();
    let page = |address: &u64| TouchedPage { address: *address, bytes: 4096, is_written: false };
    let pages: Vec<TouchedPage> = pages.iter().map(page).collect();
    first.into_iter().map(|(name, id)| (name, memory.experiments(&capture, id, &pages).unwrap())).collect()
}

/// Method and refusal of each experiment on one object, the largest first.
fn methods(experiments: &[Experiment]) -> Vec<(&str, Option<&str>)> {
    let objects = experiments.iter().filter(|one| one.target == "object");
    let method = |one| {
        let Experiment { memory, refusal, .. }: &Experiment = one;
        (memory.as_ref().map_or("", |memory| memory.method.as_str()), refusal.as_deref())
    };
    objects.map(method).collect()
}

#[test]
fn operands_of_copies_by_tensor_maps_are_led_to_few_granules() {
    for name in ["decode_step.stallmap", "ring_truth.stallmap"] {
        let all = redirects(name);
        let products = all.iter().filter(|(kernel, _)| kernel.contains("nvjet") || kernel.contains("ring"));
        let mut count = 0;
        for (kernel, experiments) in products {
            // The weight, and the rows that it is multiplied with.
            assert_eq!(methods(experiments), [("alias", None), ("preload", None)], "{kernel}");
            assert!(experiments.iter().all(|one| !one.is_counted && one.refusal.is_none()), "{kernel}");
            let [weight, rows, together] = &experiments[..] else { panic!("{kernel}: {experiments:?}") };
            let [weight, rows, together] =
                [weight, rows, together].map(|one| one.memory.as_ref().unwrap().redirected_bytes);
            assert!(weight >= 32 << 20 && rows <= 1 << 20, "{kernel}: {weight} {rows}");
            assert_eq!(together, weight + rows, "{kernel}");
            count += 1;
        }
        assert!(count >= 2, "{name}");
    }
}

#[test]
fn objects_that_decide_the_work_and_written_ones_are_not_redirected() {
    let all = &redirects("known_truth.stallmap");
    for kernel in ["chase", "chase_loop"] {
        let address = Some("its value reaches the address of an access");
        assert_eq!(methods(experiments_of(all, kernel)), [("", address), ("preload", None)], "{kernel}");
    }
    // Its bins are counted by atomics.
    assert_eq!(methods(experiments_of(all, "histogram")), [("preload", None)]);
    let all = &redirects("training_parts.stallmap");
    let written = all.values().flatten().filter(|one| one.refusal.as_deref() == Some("the launch writes it"));
    assert!(written.count() >= 8);
}

#[test]
fn a_tile_index_in_shared_memory_is_no_value_of_an_operand() {
    // The warp that copies takes the number of its next tile from a counter and leaves it in shared memory, where others
    // store their results.
    let all = redirects("redirect_families.stallmap");
    let attention = all.iter().find(|(kernel, _)| kernel.contains("sdpa_sm90")).unwrap();
    assert_eq!(methods(attention.1), [("alias", None); 3], "{attention:?}");
    let convolution = all.iter().find(|(kernel, _)| kernel.contains("fprop_implicit_gemm")).unwrap();
    assert_eq!(methods(convolution.1)[0], ("alias", None), "{convolution:?}");
}
