//! Planes of GPUs: their properties, and the work of their streams.

use stallmap_schema::word::{ActivityKind, CopyKind, LossKind};

use super::details::{direction, extent, number, sides};
use super::plane::{PlaneEvent, StatValue, TracePlane};
use super::program::KernelOrigin;
use super::{SpaceReader, visit};
use crate::model::{TraceActivity, TraceDevice, TraceKernel};
use crate::trace::copy::peer;

impl SpaceReader {
    /// Reads a plane. Lines that are not streams were computed from these by a viewer.
    pub(super) fn device(&mut self, plane: &TracePlane<'_>, ordinal: i32) {
        self.trace.devices.push(described(plane, ordinal));
        let (mut damage, mut rejected) = (std::mem::take(&mut self.damage), self.rejected);
        for line in plane.lines(&mut damage) {
            let stream = line.name.strip_prefix("Stream #").and_then(|name| {
                let end = name.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(name.len());
                name.get(..end)?.parse().ok()
            });
            let Some(stream) = stream else {
                let reason = "lines of a GPU that are not streams";
                self.trace.losses.add(LossKind::Source, reason, Some(line.name));
                continue;
            };
            visit(&line, self.start_ns, &mut damage, &mut rejected, |event, begin_ns, end_ns| {
                self.work(&event, (ordinal, stream), begin_ns, end_ns);
                self.count()
            });
        }
        (self.damage, self.rejected) = (damage, rejected);
    }

    fn work(
        &mut self,
        event: &PlaneEvent<'_>,
        (device, stream): (i32, u64),
        begin_ns: i64,
        end_ns: Option<i64>,
    ) {
        // Names of kernels are the program's.
        let is_named = |name: &str| event.kernel.is_none() && event.name.starts_with(name);
        let is_copy = event.copy.is_some() || is_named("Memcpy");
        if is_copy || event.fill.is_some() || is_named("Memset") {
            let details = event.copy.or(event.fill).unwrap_or("");
            let copy = is_copy.then(|| direction(details, event.name));
            // Other copies have the number of their own GPU.
            let other = number(details, "dest").filter(|_| copy == Some(CopyKind::DeviceToDevice));
            let memory = sides(details).filter(|_| is_copy).map(|memory| self.shared(&memory));
            self.trace.works.push(TraceActivity {
                process: 0,
                kind: if is_copy { ActivityKind::Copy } else { ActivityKind::Fill },
                device: Some(device),
                stream: Some(stream),
                begin_ns,
                end_ns,
                bytes: number(details, "size").or_else(|| number(details, "num_bytes")),
                copy,
                peer: peer(Some(device), [other, None]),
                wait: None,
                correlation: event.correlation,
                call: None,
                call_name: None,
                memory,
                op: None,
            });
            return;
        }
        let name = self.shared(event.name);
        let details = event.kernel.unwrap_or("");
        let shared_bytes = number(details, "static_shared").zip(number(details, "dynamic_shared"));
        if let Some(origin) = KernelOrigin::from_event(event, |name| self.shared(name)) {
            self.instructions.push((self.trace.kernels.len(), origin));
        }
        self.trace.kernels.push(TraceKernel {
            name,
            device,
            stream,
            time_ns: end_ns.map(|end_ns| (begin_ns, end_ns)),
            begin_ns: Some(begin_ns),
            grid: extent(details, "grid"),
            block: extent(details, "block"),
            registers: number(details, "regs"),
            shared_bytes,
            correlation: event.correlation,
            ..TraceKernel::default()
        });
    }
}

fn described(plane: &TracePlane<'_>, ordinal: i32) -> TraceDevice {
    let mut device = TraceDevice { ordinal, ..TraceDevice::default() };
    for (name, value) in plane.stats() {
        let small = match value {
            StatValue::Number(number) => i32::try_from(number).unwrap_or(0),
            _ => 0,
        };
        match (name, value) {
            ("gpu_device_name" | "device_type_string", StatValue::Text(text)) => {
                text.clone_into(&mut device.name);
            }
            ("core_count", _) => device.multiprocessors = small,
            ("compute_cap_major", _) => device.compute.0 = small,
            ("compute_cap_minor", _) => device.compute.1 = small,
            // kHz.
            ("clock_rate", _) => device.clocks_khz.0 = small,
            ("memory_size", StatValue::Number(bytes)) => device.memory_bytes = bytes,
            _ => {}
        }
    }
    device
}
