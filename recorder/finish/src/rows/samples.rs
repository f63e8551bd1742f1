//! Raw samples in compact form: each name is stored once.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap_schema::capture::recording::RawSample;
use stallmap_schema::id::Pc;
use stallmap_schema::table::TableRow;

/// The raw samples of a run.
#[derive(Debug, Default)]
pub(crate) struct RawSamples {
    pub(crate) samples: Vec<InternedSample>,
    /// Samples that were removed, because no launch can have taken them.
    pub(crate) ownerless: u64,
    names: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

/// One raw sample, with names by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InternedSample {
    pub(crate) correlation_id: u64,
    pub(crate) cubin_crc: u64,
    pub(crate) function: u32,
    pub(crate) pc: Pc,
    pub(crate) reason: u32,
    pub(crate) samples: u64,
    pub(crate) ordinal: Option<u64>,
    /// The window of time that it was taken in, where no launch is known.
    pub(crate) window: Option<u32>,
}

impl RawSamples {
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        for row in 0..batch.num_rows() {
            let raw = RawSample::read(batch, row)?;
            let sample = InternedSample {
                correlation_id: raw.correlation_id,
                cubin_crc: raw.cubin_crc,
                function: self.number(raw.function_name),
                pc: raw.pc,
                reason: self.number(raw.stall_reason),
                samples: raw.samples,
                ordinal: raw.ordinal,
                window: raw.window_id,
            };
            self.samples.push(sample);
        }
        Ok(())
    }

    /// The name of a number.
    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }

    /// Every name, by number.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    fn number(&mut self, name: String) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}
