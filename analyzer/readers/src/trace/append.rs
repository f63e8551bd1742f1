//! Recordings as one: a file with several documents, or files of several processes.

use crate::trace::model::TraceModel;

impl TraceModel {
    /// Adds a recording of the same source, with times of the same clock. Processes of equal number and rank are one.
    pub fn append(&mut self, other: Self) {
        let places = self.append_processes(&other);
        let process = |process: &mut usize| *process = places.get(*process).copied().unwrap_or(*process);
        let ops = self.ops.len();
        let stacks = self.stacks.len();
        let frames = self.frames.len();
        let kernels = self.kernels.len();
        self.frames.extend(other.frames);
        let moved = |stack: Vec<usize>| stack.into_iter().map(|frame| frame + frames).collect();
        self.stacks.extend(other.stacks.into_iter().map(moved));
        self.ops.extend(other.ops.into_iter().map(|mut op| {
            process(&mut op.process);
            op.moved(ops, stacks)
        }));
        self.kernels.extend(other.kernels.into_iter().map(|mut kernel| {
            process(&mut kernel.process);
            kernel.op = kernel.op.map(|op| op + ops);
            kernel.stack = kernel.stack.map(|stack| stack + stacks);
            kernel
        }));
        self.works.extend(other.works.into_iter().map(|mut work| {
            process(&mut work.process);
            work.op = work.op.map(|op| op + ops);
            work
        }));
        self.storages.extend(other.storages.into_iter().map(|mut storage| {
            process(&mut storage.process);
            storage.op = storage.op.map(|op| op + ops);
            storage
        }));
        self.segments.extend(other.segments.into_iter().map(|mut segment| {
            process(&mut segment.process);
            segment
        }));
        self.failures.extend(other.failures.into_iter().map(|mut failure| {
            process(&mut failure.process);
            failure.op = failure.op.map(|op| op + ops);
            failure
        }));
        self.counters.extend(other.counters.into_iter().map(|mut counter| {
            counter.kernel += kernels;
            counter
        }));
        self.region_numbers.extend(other.region_numbers.into_iter().map(|mut number| {
            number.op += ops;
            number
        }));
        self.pending.extend(other.pending.into_iter().map(|mut pending| {
            pending.op = pending.op.map(|op| op + ops);
            pending
        }));
        self.devices.extend(other.devices.into_iter().map(|mut device| {
            device.process.iter_mut().for_each(process);
            device
        }));
        for (name, fact) in other.facts {
            self.facts.entry(name).or_insert(fact);
        }
        self.losses.extend(other.losses);
    }

    /// Adds a recording of another file, whose times are of a clock of its own.
    pub fn append_file(&mut self, mut other: Self) {
        let clocks = self.processes.iter().map(|process| process.clock + 1).max().unwrap_or(0);
        other.processes.iter_mut().for_each(|process| process.clock += clocks);
        self.append(other);
    }

    /// Adds processes. Returns their places here.
    fn append_processes(&mut self, other: &Self) -> Vec<usize> {
        let mut places = Vec::new();
        for process in &other.processes {
            let is_same = |own: &crate::trace::model::TraceProcess| {
                (own.number, own.rank, &own.program) == (process.number, process.rank, &process.program)
            };
            let known = self.processes.iter().position(is_same);
            places.push(known.unwrap_or(self.processes.len()));
            if known.is_none() {
                self.processes.push(process.clone());
            }
        }
        places
    }
}
