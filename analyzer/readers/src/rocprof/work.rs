//! Work of a profile as rows, once all names and GPUs are known.

use std::collections::HashMap;

use stallmap_schema::word::{ActivityKind, CopyKind, Instrument, LossKind};

use super::record::RocprofRecord;
use super::{KernelCounters, RocprofReader};
use crate::join::join_ops;
use crate::model::{TraceActivity, TraceCounter, TraceKernel, TraceModel, TraceProcess};

impl RocprofReader {
    pub(super) fn finish(mut self) -> TraceModel {
        for (process, record) in std::mem::take(&mut self.dispatches) {
            self.kernel(process, &record);
        }
        self.collect();
        for (process, record) in std::mem::take(&mut self.copies) {
            self.copy(process, &record);
        }
        let mut trace = self.trace;
        trace.tool = "rocprofv3";
        trace.processes = self
            .numbers
            .into_iter()
            .map(|number| TraceProcess::with_number(number, Instrument::Timeline))
            .collect();
        join_ops(&mut trace);
        let without = trace.kernels.iter().filter(|kernel| kernel.call.is_none()).count() as u64;
        let losses = &mut trace.losses;
        losses.add_many(LossKind::Source, "kernels without a launch call in the profile", without, None);
        losses.lacks("the time of day: times are those of the system's own clock");
        losses.lacks("clocks, memory and L2 size of GPUs, written as 0");
        for part in ["ops, tensors and Python stacks", "memory accesses", "machine code", "stall samples"] {
            losses.lacks(part);
        }
        trace
    }

    fn kernel(&mut self, process: usize, record: &RocprofRecord) {
        let symbol = record.kernel.and_then(|number| self.symbols.get(&number));
        if symbol.is_none() {
            self.trace.losses.add(LossKind::Source, "kernels without a symbol", None);
        }
        let time_ns = record.time_ns();
        if time_ns.is_none() {
            self.trace.losses.add(LossKind::Source, "kernels without begin or end", None);
        }
        self.trace.kernels.push(TraceKernel {
            process,
            name: symbol.map_or_else(|| "(unknown kernel)".into(), |symbol| symbol.name.clone()),
            device: self.ordinal(record.agents[0]).unwrap_or(-1),
            stream: record.stream.and_then(|stream| u64::try_from(stream).ok()).unwrap_or(0),
            time_ns,
            grid: record.blocks(),
            block: record.workgroup,
            registers: symbol.and_then(|symbol| symbol.registers),
            correlation: record.correlation.and_then(|number| u64::try_from(number).ok()),
            call: record.correlation.and_then(|number| self.calls.get(&(process, number))).copied(),
            ..TraceKernel::default()
        });
    }

    /// Gives kernels their counters. A profile of counters only has its kernels nowhere else.
    fn collect(&mut self) {
        let known = self.trace.kernels.iter().enumerate();
        let known: HashMap<(usize, u64), usize> = known
            .filter_map(|(place, kernel)| Some(((kernel.process, kernel.correlation?), place)))
            .collect();
        for KernelCounters { process, record, values } in std::mem::take(&mut self.collections) {
            let correlation = record.correlation.and_then(|number| u64::try_from(number).ok());
            let place = correlation.and_then(|number| known.get(&(process, number))).copied();
            let kernel = place.unwrap_or(self.trace.kernels.len());
            if place.is_none() {
                self.kernel(process, &record);
            }
            for (handle, value) in values {
                let metric = self.counters.get(&handle).cloned();
                let metric = metric.unwrap_or_else(|| format!("counter {handle}").into());
                let value = Some(value).filter(|value| value.is_finite());
                self.trace.counters.push(TraceCounter { kernel, metric, value, unit: String::new() });
            }
        }
    }

    fn copy(&mut self, process: usize, record: &RocprofRecord) {
        let Some((begin_ns, end_ns)) = record.time_ns() else {
            self.trace.losses.add(LossKind::Source, "copies without begin or end", None);
            return;
        };
        let [destination, source] = record.agents;
        self.trace.works.push(TraceActivity {
            process,
            kind: ActivityKind::Copy,
            device: self.ordinal(destination).or_else(|| self.ordinal(source)),
            stream: record.stream.and_then(|stream| u64::try_from(stream).ok()),
            begin_ns,
            end_ns: Some(end_ns),
            bytes: record.bytes.and_then(|bytes| u64::try_from(bytes).ok()),
            copy: Some(direction(record.operation)),
            peer: None,
            wait: None,
            correlation: record.correlation.and_then(|number| u64::try_from(number).ok()),
            call: record.correlation.and_then(|number| self.calls.get(&(process, number))).copied(),
            call_name: None,
            memory: None,
            op: None,
        });
    }

    fn ordinal(&self, handle: Option<i64>) -> Option<i32> {
        self.ordinals.get(&handle?).copied()
    }
}

    fn ordinal(&self, handle: Option<i64>) -> Option<i32> {
        self.ordinals.get(&handle?).copied()
    }
}

/// The tool's numbers of copies.
fn direction(operation: Option<i64>) -> CopyKind {
    match operation {
        Some(2) => CopyKind::HostToDevice,
        Some(3) => CopyKind::DeviceToHost,
        Some(4) => CopyKind::DeviceToDevice,
        _ => CopyKind::Other,
    }
}
