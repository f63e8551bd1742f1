//! Cubins of a report, and samples at the addresses to which the driver loaded them.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::formats::proto::{ProtoReader, ProtoValue};
use stallmap_sass::cubin::Cubin;
use stallmap_schema::word::{Instrument, LossKind};

use super::metric::{MetricValue, ReportMetric, instance};
use crate::model::{KernelSampling, TraceModel, TraceProcess, TraceSample};

/// Function, offset, and stall reason.
type ReasonLocation = (Rc<str>, u32, Rc<str>);

/// The names of metrics with samples per stall reason.
const STALLED: &str = "smsp__pcsamp_warps_issue_stalled_";
const NOT_ISSUED: &str = "_not_issued";

/// A cubin as it was loaded.
#[derive(Default)]
pub(super) struct ReportCubin {
    /// Its bytes. Empty where the report does not have them.
    pub(super) cubin: Vec<u8>,
    /// Functions by address.
    functions: BTreeMap<u64, Rc<str>>,
    /// The hash of its bytes, and its content, once a kernel needs them.
    loaded: Option<(Rc<str>, Option<Cubin>)>,
}

impl ReportCubin {
    /// Moves the bytes to the trace. Does nothing without bytes, and the second time.
    fn load(&mut self, cubins: &mut BTreeMap<Rc<str>, Vec<u8>>) {
        if !self.cubin.is_empty() {
            let bytes = std::mem::take(&mut self.cubin);
            let identity: Rc<str> = blake3::hash(&bytes).to_hex().as_str().into();
            self.loaded = Some((identity.clone(), Cubin::read(&bytes).ok()));
            cubins.insert(identity, bytes);
        }
    }

    /// Adds what another source has of the same cubin.
    pub(super) fn add(&mut self, other: Self) {
        if !other.cubin.is_empty() {
            self.cubin = other.cubin;
        }
        self.functions.extend(other.functions);
    }

    /// Adds the addresses of functions.
    pub(super) fn add_functions(&mut self, message: ProtoReader<'_>) -> Result<(), String> {
        for entry in message {
            let (1, ProtoValue::Message(entry)) = entry? else { continue };
            let name = entry.message(1)?.map(ProtoReader::text);
            if let Some((name, address)) = name.zip(entry.number(2)?) {
                self.functions.insert(address, name.into());
            }
        }
        Ok(())
    }
}

/// Samples of a kernel by address.
pub(super) struct SampledAddresses {
    /// The kernel, by place.
    pub(super) kernel: usize,
    /// The report's number of its cubin.
    pub(super) reference: Option<u64>,
    period_cycles: Option<u64>,
    taken: Option<u64>,
    /// Address of the kernel's code, if no cubin has it.
    base: Option<u64>,
    /// All samples and those without an issue, by address and reason.
    rows: BTreeMap<(u64, Rc<str>), (u64, u64)>,
}

impl SampledAddresses {
    /// No samples of a kernel.
    pub(super) fn for_kernel(kernel: usize) -> Self {
        Self { kernel, reference: None, period_cycles: None, taken: None, base: None, rows: BTreeMap::new() }
    }

    /// Takes the samples of a metric. Returns false if its instances are something else.
    pub(super) fn take(&mut self, name: &str, metric: &ReportMetric<'_>) -> Result<bool, String> {
        let whole = metric.value.and_then(MetricValue::number).filter(|value| *value >= 0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
        let whole = whole.map(|value| value as u64);
        match name {
            "smsp__pcsamp_interval_cycles" => self.period_cycles = whole.filter(|cycles| *cycles > 0),
            "smsp__pcsamp_sample_count" => self.taken = whole,
            "launch__function_pcs" => {
                let first = metric.instances.first().map(|first| first.message(2)).transpose()?.flatten();
                self.base =
                    first.map(MetricValue::read).transpose()?.flatten().and_then(MetricValue::integer);
            }
            _ => {
                let Some(reason) = name.strip_prefix(STALLED) else { return Ok(false) };
                let (reason, is_issued) =
                    reason.strip_suffix(NOT_ISSUED).map_or((reason, true), |reason| (reason, false));
                let reason: Rc<str> = reason.into();
                for part in &metric.instances {
                    let Some((address, count)) = instance(*part)?.filter(|(_, count)| *count > 0) else {
                        continue;
                    };
                    let row = self.rows.entry((address, reason.clone())).or_default();
                    let slot = if is_issued { &mut row.0 } else { &mut row.1 };
                    *slot = slot.saturating_add(count);
                }
            }
        }
        Ok(true)
    }
}

/// Gives kernels their cubins, and samples their functions and offsets.
pub(super) fn place(
    trace: &mut TraceModel,
    codes: &mut HashMap<u64, ReportCubin>,
    sampled: Vec<SampledAddresses>,
) {
    for of_kernel in sampled {
        let code = of_kernel.reference.and_then(|number| codes.get_mut(&number));
        let code = code.and_then(|code| {
            code.load(&mut trace.cubins);
            let (identity, cubin) = code.loaded.as_ref()?;
            Some((identity, cubin.as_ref(), &code.functions))
        });
        let Some((identity, cubin, functions)) = code else {
            trace.losses.add(LossKind::Code, "kernels whose cubin is not in the report", None);
            add(trace, of_kernel, None, &BTreeMap::new());
            continue;
        };
        if let Some(kernel) = trace.kernels.get_mut(of_kernel.kernel) {
            kernel.code = Some(identity.clone());
        }
        add(trace, of_kernel, cubin, functions);
    }
}

/// Adds the samples of a kernel, in a run of their own.
fn add(
    trace: &mut TraceModel,
    sampled: SampledAddresses,
    cubin: Option<&Cubin>,
    functions: &BTreeMap<u64, Rc<str>>,
) {
    let Some(kernel) = trace.kernels.get(sampled.kernel) else { return };
    if sampled.taken.is_none() && sampled.rows.is_empty() {
        return;
    }
    let of_base = sampled.base.map(|base| (base, kernel.name.clone()));
    let of_base: BTreeMap<u64, Rc<str>> = of_base.into_iter().collect();
    let functions = if functions.is_empty() { &of_base } else { functions };
    let mut rows: BTreeMap<ReasonLocation, (u64, u64)> = BTreeMap::new();
    let mut lost = 0_u64;
    let mut found = 0_u64;
    for ((address, reason), (samples, not_issued)) in sampled.rows {
        let Some((function, pc)) = locate(address, cubin, functions) else {
            lost = lost.saturating_add(samples);
            continue;
        };
        found = found.saturating_add(samples);
        let row = rows.entry((function, pc, reason)).or_default();
        *row = (row.0.saturating_add(samples), row.1.saturating_add(not_issued));
    }
    let taken = sampled.taken.unwrap_or(0).max(found.saturating_add(lost));
    trace.losses.add_many(LossKind::Sample, "samples outside of the functions in the report", lost, None);
    let process = sampling_process(trace, kernel.process);
    let (kernel, period_cycles) = (sampled.kernel, sampled.period_cycles);
    trace.samplings.push(KernelSampling { process, kernel, period_cycles, taken, lost: taken - found });
    trace.samples.extend(rows.into_iter().map(|((function, pc, reason), (samples, not_issued))| {
        TraceSample { process, kernel, function, pc, reason, samples, not_issued }
    }));
}

/// The run of the samples of a process.
fn sampling_process(trace: &mut TraceModel, reference: usize) -> usize {
    let found = trace.processes.iter().position(|process| process.reference == Some(reference));
    found.unwrap_or_else(|| {
        let Some(process) = trace.processes.get(reference) else { return reference };
        let program = process.program.clone();
        let of_samples = TraceProcess::with_number(process.number, Instrument::PcSamples);
        trace.processes.push(TraceProcess { program, reference: Some(reference), ..of_samples });
        trace.processes.len() - 1
    })
}

/// The function at an address, and the offset in it.
fn locate(address: u64, cubin: Option<&Cubin>, functions: &BTreeMap<u64, Rc<str>>) -> Option<(Rc<str>, u32)> {
    let (begin, name) = functions.range(..=address).next_back()?;
    let pc = u32::try_from(address - begin).ok()?;
    let Some(cubin) = cubin else { return Some((name.clone(), pc)) };
    let mut sections = cubin.sections.iter();
    let (section, outer) = sections
        .find_map(|section| Some((section, section.functions.iter().find(|code| *code.name == **name)?)))?;
    let code = section.function_at(outer.offset.checked_add(pc)?)?;
    if code.offset <= outer.offset {
        return (code.name == outer.name).then(|| (name.clone(), pc));
    }
    // A function that the kernel calls stands behind it.
    Some((code.name.as_str().into(), pc - (code.offset - outer.offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_source_keeps_the_cubin_of_the_first() {
        let functions = |address, name: &str| BTreeMap::from([(address, Rc::from(name))]);
        let mut code = ReportCubin { cubin: vec![1], functions: functions(16, "a"), loaded: None };
        code.add(ReportCubin { functions: functions(32, "b"), ..ReportCubin::default() });
        assert_eq!((code.cubin.len(), code.functions.len()), (1, 2));
        code.add(ReportCubin { cubin: vec![2, 3], ..ReportCubin::default() });
        assert_eq!(code.cubin, [2, 3]);
    }
}
