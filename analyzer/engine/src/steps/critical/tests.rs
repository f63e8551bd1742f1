//! Programs whose critical path is known.

use super::causes::CauseTable;
use super::model::{CriticalModel, CriticalWork, HostEvent, HostStretch, HostThread, PathItem, StepWindow};
use super::walk::{PathPiece, PathWalk};
use super::without::StepReplay;

/// A program of one run, in the order of time.
#[derive(Default)]
struct PathProgram(CriticalModel);

impl PathProgram {
    /// Adds a thread with ops: name, begin and end.
    fn thread(&mut self, run: usize, ops: &[(&str, i64, i64)]) -> usize {
        let mut stretches = Vec::new();
        for (name, begin_ns, end_ns) in ops {
            self.0.host_items.push(PathItem::Host(Some((*name).to_owned())));
            let item = Some(self.0.host_items.len() - 1);
            stretches.retain(|stretch: &HostStretch| stretch.begin_ns != *begin_ns);
            stretches.push(HostStretch { begin_ns: *begin_ns, item, op_id: None, is_rest: false });
            stretches.push(HostStretch { begin_ns: *end_ns, item: None, op_id: None, is_rest: true });
        }
        self.0.threads.push(HostThread { run, stretches, ..HostThread::default() });
        self.0.threads.len() - 1
    }

    /// Adds work on a stream, with the begin of its call.
    fn work(&mut self, item: PathItem, stream: u32, time: (i64, i64), call: Option<(usize, i64)>) -> usize {
        let index = self.0.works.len();
        let run = call.map_or(0, |(thread, _)| self.0.threads[thread].run);
        let call = call.map(|(thread, ns)| {
            let events = &mut self.0.threads[thread].events;
            events.push(HostEvent { time: (ns, ns + 1), blocked_by: None });
            (thread, events.len() - 1)
        });
        self.0.works.push(CriticalWork {
            run,
            activity_id: index as u64,
            kernel_id: None,
            item,
            stream: Some((0, stream)),
            time,
            call,
            match_id: None,
        });
        index
    }

    fn wait(&mut self, thread: usize, time: (i64, i64), work: usize) {
        let events = &mut self.0.threads[thread].events;
        events.push(HostEvent { time, blocked_by: Some(work) });
    }

    fn finished(mut self) -> (CriticalModel, CauseTable) {
        self.0.threads.iter_mut().for_each(HostThread::find_returns);
        let causes = CauseTable::from_model(&self.0);
        (self.0, causes)
    }
}

fn step(end_ns: i64) -> StepWindow {
    StepWindow { run: 0, program_step: Some(0), time: (0, end_ns) }
}

/// The path as words, and its pieces checked: they follow each other from begin to end.
fn path(model: &CriticalModel, causes: &CauseTable, window: StepWindow) -> Vec<(String, i64)> {
    let pieces = PathWalk::path(model, causes, window);
    check_pieces(&pieces, window);
    let name = |piece: &PathPiece| match piece.item.function() {
        Some(function) => format!("{} {function}", piece.item.word()),
        None => piece.item.name().map_or_else(|| piece.item.word().to_owned(), str::to_owned),
    };
    pieces.iter().map(|piece| (name(piece), piece.time.1 - piece.time.0)).collect()
}

fn check_pieces(pieces: &[PathPiece], window: StepWindow) {
    let mut at = window.time.0;
    for piece in pieces {
        assert_eq!(piece.time.0, at, "{pieces:?}");
        assert!(piece.time.1 > at, "{pieces:?}");
        at = piece.time.1;
    }
    assert_eq!(at, window.time.1, "{pieces:?}");
}

fn without(model: &CriticalModel, causes: &CauseTable, window: StepWindow, item: &PathItem) -> i64 {
    StepReplay::new(model, causes, window).duration_without(item)
}

fn texts(path: &[(String, i64)]) -> Vec<(&str, i64)> {
    path.iter().map(|(name, ns)| (name.as_str(), *ns)).collect()
}

#[test]
fn a_program_that_the_gpu_holds_up_leads_through_its_kernels() {
    let mut program = PathProgram::default();
    let thread = program.thread(0, &[("forward", 0, 30_000)]);
    program.work(PathItem::Kernel(1), 0, (5_000, 105_000), Some((thread, 1_000)));
    // A copy that kernels hide is not on the path.
    program.work(PathItem::Copy("host_to_device".into()), 1, (24_000, 84_000), Some((thread, 9_000)));
    program.work(PathItem::Kernel(2), 0, (106_000, 206_000), Some((thread, 10_000)));
    program.work(PathItem::Kernel(1), 0, (207_000, 307_000), Some((thread, 25_000)));
    let (model, causes) = program.finished();
    let window = step(307_000);
    let found = path(&model, &causes, window);
    assert_eq!(
        texts(&found),
        [
            ("forward", 1_000),
            ("launch", 4_000),
            ("kernel 1", 100_000),
            ("handover", 1_000),
            ("kernel 2", 100_000),
            ("handover", 1_000),
            ("kernel 1", 100_000)
        ]
    );
    let duration = |item| without(&model, &causes, window, &item);
    assert_eq!(duration(PathItem::Unknown), 307_000);
    assert_eq!(duration(PathItem::Kernel(2)), 207_000);
    assert_eq!(duration(PathItem::Copy("host_to_device".into())), 307_000);
    // Without the first kernel, the second one begins when it is launched: 10 us, and the 4 us of a launch. The third is
    // the same kernel.
    assert_eq!(duration(PathItem::Kernel(1)), 10_000 + 4_000 + 100_000 + 1_000);
}

#[test]
fn a_program_that_the_host_holds_up_leads_through_its_ops() {
    let mut program = PathProgram::default();
    let ops = [("prepare", 0, 90_000), ("forward", 90_000, 110_000), ("prepare", 110_000, 200_000)];
    let thread = program.thread(0, &ops);
    program.work(PathItem::Kernel(1), 0, (105_000, 115_000), Some((thread, 100_000)));
    program.work(PathItem::Kernel(2), 0, (205_000, 215_000), Some((thread, 200_000)));
    let (model, causes) = program.finished();
    let window = step(215_000);
    let found = path(&model, &causes, window);
    assert_eq!(
        texts(&found),
        [
            ("prepare", 90_000),
            ("forward", 20_000),
            ("prepare", 90_000),
            ("launch", 5_000),
            ("kernel 2", 10_000)
        ]
    );
    let prepare = PathItem::Host(Some("prepare".into()));
    // The second kernel is launched at 20 us, when the first one still runs: up to 25 us, and a handover of 1 us.
    assert_eq!(without(&model, &causes, window, &prepare), 36_000);
    assert_eq!(without(&model, &causes, window, &PathItem::Kernel(1)), 215_000);
}

#[test]
fn a_host_that_waits_for_a_copy_is_led_through_it() {
    let mut program = PathProgram::default();
    let thread =
        program.thread(0, &[("forward", 0, 8_000), ("item", 8_000, 64_000), ("next", 64_000, 70_000)]);
    program.work(PathItem::Kernel(1), 0, (6_000, 56_000), Some((thread, 1_000)));
    let copy =
        program.work(PathItem::Copy("device_to_host".into()), 0, (57_000, 59_000), Some((thread, 9_000)));
    program.wait(thread, (10_000, 62_000), copy);
    program.work(PathItem::Kernel(2), 0, (70_000, 80_000), Some((thread, 65_000)));
    let (model, causes) = program.finished();
    let window = step(80_000);
    let found = path(&model, &causes, window);
    assert_eq!(
        texts(&found),
        [
            ("forward", 1_000),
            ("launch", 5_000),
            ("kernel 1", 50_000),
            ("handover", 1_000),
            ("device_to_host", 2_000),
            ("return", 3_000),
            ("item", 2_000),
            ("next", 1_000),
            ("launch", 5_000),
            ("kernel 2", 10_000)
        ]
    );
    // Without the kernel, the copy is launched at 9 us, and takes 2 us after a launch of 5 us.
    let expected = 9_000 + 5_000 + 2_000 + 3_000 + 3_000 + 5_000 + 10_000;
    assert_eq!(without(&model, &causes, window, &PathItem::Kernel(1)), expected);
}

#[test]
fn backward_leads_to_the_thread_that_waited_for_it() {
    let mut program = PathProgram::default();
    let main = program.thread(0, &[("forward", 0, 20_000), ("optimizer", 90_000, 100_000)]);
    let autograd = program.thread(0, &[("backward", 21_000, 88_000)]);
    program.work(PathItem::Kernel(1), 0, (15_000, 16_000), Some((main, 10_000)));
    program.work(PathItem::Kernel(2), 0, (85_000, 86_000), Some((autograd, 80_000)));
    program.work(PathItem::Kernel(3), 0, (100_000, 101_000), Some((main, 95_000)));
    let (model, causes) = program.finished();
    let window = step(101_000);
    let pieces = PathWalk::path(&model, &causes, window);
    assert_eq!(pieces.iter().filter(|piece| piece.relation == "thread").count(), 2);
    let found = path(&model, &causes, window);
    assert_eq!(
        texts(&found),
        [
            ("forward", 20_000),
            ("host", 1_000),
            ("backward", 67_000),
            ("host", 2_000),
            ("optimizer", 5_000),
            ("launch", 5_000),
            ("kernel 3", 1_000)
        ]
    );
    let backward = PathItem::Host(Some("backward".into()));
    assert_eq!(without(&model, &causes, window, &backward), 34_000);
}

#[test]
fn a_collective_leads_to_the_rank_that_came_last() {
    let mut program = PathProgram::default();
    let early = program.thread(0, &[("forward", 0, 20_000)]);
    let late = program.thread(1, &[("forward", 0, 60_000)]);
    program.work(PathItem::Kernel(1), 0, (5_000, 10_000), Some((early, 0)));
    let first = program.work(PathItem::Collective(2), 0, (11_000, 70_000), Some((early, 6_000)));
    let second = program.work(PathItem::Collective(2), 0, (55_000, 70_000), Some((late, 50_000)));
    for index in [first, second] {
        program.0.works[index].match_id = Some(7);
    }
    let (model, causes) = program.finished();
    let window = step(70_000);
    let pieces = PathWalk::path(&model, &causes, window);
    let runs: Vec<usize> = pieces.iter().map(|piece| piece.run).collect();
    assert_eq!(runs, [1, 1, 0], "{pieces:?}");
    let found = path(&model, &causes, window);
    assert_eq!(texts(&found), [("forward", 50_000), ("launch", 5_000), ("collective 2", 15_000)]);
    let duration = |item| without(&model, &causes, window, &item);
    assert_eq!(duration(PathItem::Unknown), 70_000);
    // A collective without a length still waits for the late rank.
    assert_eq!(duration(PathItem::Collective(2)), 55_000);
    // Without the code of both ranks, the early one's kernel holds its collective up: 5 + 5 + 1 + 15 us.
    assert_eq!(duration(PathItem::Host(Some("forward".into()))), 26_000);
}

/// A generator of numbers: programs are the same each time.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % limit).unwrap()
    }
}

/// A program that runs by the rules: a thread that launches and waits, and streams that take turns.
fn random_program(seed: u64) -> (CriticalModel, CauseTable, StepWindow) {
    let mut random = RandomNumbers(seed);
    let mut program = PathProgram::default();
    let thread = program.thread(0, &[]);
    let (mut now, mut free, mut last) = (0, [0_i64; 3], 0);
    let names = ["a", "b", "c"];
    let mut ops = Vec::new();
    for _ in 0..60 {
        let begin = now;
        now += 500 + random.below(20_000);
        ops.push((names[usize::try_from(random.below(3)).unwrap()], begin, now - 400));
        let stream = usize::try_from(random.below(3)).unwrap();
        // Work can begin a little before the work in front of it ends.
        let start = (now + 4_000 + random.below(1_500)).max(free[stream] - 200 + random.below(1_500));
        let end = start + 1_000 + random.below(40_000);
        free[stream] = end;
        let kernel = PathItem::Kernel(random.below(4).unsigned_abs());
        let index = program.work(kernel, u32::try_from(stream).unwrap(), (start, end), Some((thread, now)));
        last = last.max(end);
        now += 300;
        if random.below(5) == 0 && end > now {
            program.wait(thread, (now, end + 2_000), index);
            now = end + 2_000;
        }
    }
    let with_ops = program.thread(0, &ops);
    let stretches = std::mem::take(&mut program.0.threads[with_ops].stretches);
    program.0.threads.pop();
    program.0.threads[thread].stretches = stretches;
    let mut order: Vec<usize> = (0..program.0.works.len()).collect();
    order.sort_by_key(|index| program.0.works[*index].time);
    let indexes: std::collections::HashMap<usize, usize> =
        order.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    for event in &mut program.0.threads[thread].events {
        event.blocked_by = event.blocked_by.map(|index| indexes[&index]);
    }
    program.0.works.sort_by_key(|work| work.time);
    let (model, causes) = program.finished();
    (model, causes, step(last))
}

#[test]
fn nothing_moves_without_nothing_and_no_item_saves_more_than_its_time_on_the_path() {
    let mut savings = 0;
    for seed in 0..300 {
        let (model, causes, window) = random_program(seed);
        let pieces = PathWalk::path(&model, &causes, window);
        check_pieces(&pieces, window);
        let replay = StepReplay::new(&model, &causes, window);
        let whole = replay.duration_without(&PathItem::Unknown);
        assert_eq!(whole, window.time.1, "seed {seed}");
        let mut items: Vec<PathItem> = pieces.iter().map(|piece| piece.item.clone()).collect();
        items.extend((0..4).map(PathItem::Kernel));
        items.sort();
        items.dedup();
        for item in items.iter().filter(|item| **item != PathItem::Unknown) {
            let on_path = pieces.iter().filter(|piece| piece.item == *item);
            let path_ns: i64 = on_path.map(|piece| piece.time.1 - piece.time.0).sum();
            let saving_ns = whole - replay.duration_without(item);
            assert!((0..=path_ns).contains(&saving_ns), "seed {seed}: {item:?} {saving_ns} of {path_ns}");
            savings += usize::from(saving_ns > 0);
        }
    }
    assert!(savings > 1_000, "{savings}");
}
