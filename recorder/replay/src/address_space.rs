//! Memory at the addresses that the program had.
//!
//! The driver honours a wished address only for large, aligned reservations: requests of a GiB at a multiple of 32 MiB
//! are exact wherever the range is free, small ones are carved from elsewhere. So spans of at least a GiB are reserved
//! over the recorded pages, and granules of 2 MiB of physical memory are mapped where pages lie. A span that is taken
//! in this process (by a library, a stack) is either an error, for another process to try, or reserved elsewhere. Then
//! pointers are translated.

use std::collections::{BTreeMap, BTreeSet};

use crate::bundle::ReplayBundle;
use crate::error::{GpuError, ReplayError};
use crate::gpu::{GRANULE_BYTES, ReplayGpu};
use crate::plan::AddressTranslation;

/// Alignment of a wished address.
const ALIGNMENT_BYTES: u64 = 32 << 20;
/// The least reservation for which the driver honours the address.
const SPAN_BYTES: u64 = 1 << 30;

/// A range of recorded addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpan {
    /// First address, as recorded.
    pub recorded: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The recorded address space in this process.
pub struct AddressSpace {
    gpu: ReplayGpu,
    /// Recorded spans, by their start, with where they lie.
    spans: BTreeMap<u64, (AddressSpan, u64)>,
    /// Granules that are mapped, by recorded address, with their memory.
    mapped: BTreeMap<u64, u64>,
    /// Physical memory that is mapped nowhere.
    spare: Vec<u64>,
    /// Mapped granules that show the memory of another one.
    redirected: BTreeMap<u64, u64>,
}

impl AddressSpace {
    /// Reserves addresses for the pages of all bundles. A span that cannot lie where it was recorded is an error,
    /// unless pointers may be translated.
    pub fn reserve<'a>(
        gpu: ReplayGpu,
        bundles: impl IntoIterator<Item = &'a ReplayBundle>,
        translation: AddressTranslation,
    ) -> Result<Self, ReplayError> {
        let granules: BTreeSet<u64> = bundles.into_iter().flat_map(granules).collect();
        let mut space = Self {
            gpu,
            spans: BTreeMap::new(),
            mapped: BTreeMap::new(),
            spare: Vec::new(),
            redirected: BTreeMap::new(),
        };
        for span in spans(&granules) {
            let actual = space.reserve_span(span, translation)?;
            space.spans.insert(span.recorded, (span, actual));
        }
        Ok(space)
    }

    fn reserve_span(&self, span: AddressSpan, translation: AddressTranslation) -> Result<u64, ReplayError> {
        let wished = if translation == AddressTranslation::Always { 0 } else { span.recorded };
        // The driver refuses addresses that this machine does not have, instead of choosing others.
        let actual = self.gpu.reserve(wished, span.bytes).or_else(|_| self.gpu.reserve(0, span.bytes))?;
        if actual == span.recorded || translation != AddressTranslation::Never {
            return Ok(actual);
        }
        self.gpu.unreserve(actual, span.bytes)?;
        Err(ReplayError::Taken { address: span.recorded, mib: span.bytes >> 20 })
    }

    /// Maps memory for a bundle. What earlier bundles used is taken from them where memory is short.
    pub fn require(&mut self, bundle: &ReplayBundle) -> Result<(), GpuError> {
        let wanted = granules(bundle);
        for &granule in &wanted {
            if self.mapped.contains_key(&granule) {
                continue;
            }
            let memory = self.memory(&wanted)?;
            match self.gpu.map(self.translate(granule).unwrap_or(granule), memory) {
                Ok(()) => drop(self.mapped.insert(granule, memory)),
                Err(error) => {
                    self.spare.push(memory);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// A granule of physical memory.
    fn memory(&mut self, wanted: &BTreeSet<u64>) -> Result<u64, GpuError> {
        if let Some(memory) = self.spare.pop() {
            return Ok(memory);
        }
        self.gpu.create_granule().or_else(|error| {
            let idle: Vec<u64> =
                self.mapped.keys().copied().filter(|granule| !wanted.contains(granule)).collect();
            for granule in idle {
                self.gpu.unmap(self.translate(granule).unwrap_or(granule))?;
                self.spare.extend(self.mapped.remove(&granule));
            }
            self.spare.pop().ok_or(error)
        })
    }

    /// Maps the memory of some granules in the place of others, by recorded addresses, and every other granule's own
    /// memory in its place. Returns whether anything changed. No work of the GPU may use the memory.
    pub fn redirect(&mut self, wanted: &[(u64, u64)]) -> Result<bool, GpuError> {
        let wanted: BTreeMap<u64, u64> =
            wanted.iter().copied().filter(|(granule, source)| granule != source).collect();
        let changed: BTreeSet<u64> = (wanted.iter())
            .filter(|(granule, source)| self.redirected.get(granule) != Some(source))
            .chain(self.redirected.iter().filter(|(granule, _)| !wanted.contains_key(granule)))
            .map(|(granule, _)| *granule)
            .collect();
        for &granule in &changed {
            let source = wanted.get(&granule).copied().unwrap_or(granule);
            let (Some(&own), Some(&memory)) = (self.mapped.get(&granule), self.mapped.get(&source)) else {
                return Err(GpuError::own("redirect memory", "a granule is not mapped"));
            };
            let address = self.translate(granule).unwrap_or(granule);
            self.gpu.unmap(address)?;
            if let Err(error) = self.gpu.map(address, memory) {
                // Nothing is there now.
                self.mapped.remove(&granule);
                self.redirected.remove(&granule);
                self.spare.push(own);
                return Err(error);
            }
            if source == granule {
                self.redirected.remove(&granule);
            } else {
                self.redirected.insert(granule, source);
            }
        }
        Ok(!changed.is_empty())
    }

    /// The address in this process of a recorded address. `None` if nothing is reserved for it.
    pub fn translate(&self, address: u64) -> Option<u64> {
        let (_, (span, actual)) = self.spans.range(..=address).next_back()?;
        (address - span.recorded < span.bytes).then(|| actual + (address - span.recorded))
    }

    /// True if any of a bundle's pages lies elsewhere than recorded.
    pub fn is_translated(&self, bundle: &ReplayBundle) -> bool {
        bundle.pages.iter().any(|page| self.translate(page.address) != Some(page.address))
    }

    /// Parameters with the pointers into the bundle's granules translated: every aligned word that could be one.
    pub fn translated(&self, bundle: &ReplayBundle) -> Vec<u8> {
        let mut parameters = bundle.parameters.clone();
        if !self.is_translated(bundle) {
            return parameters;
        }
        let granules = granules(bundle);
        for word in parameters.as_chunks_mut::<8>().0 {
            let address = u64::from_le_bytes(*word);
            if granules.contains(&(address / GRANULE_BYTES * GRANULE_BYTES))
                && let Some(actual) = self.translate(address)
            {
                *word = actual.to_le_bytes();
            }
        }
        parameters
    }
}

/// Bytes of GPU memory that the pages of bundles take, each address once.
pub fn memory_bytes<'a>(bundles: impl IntoIterator<Item = &'a ReplayBundle>) -> u64 {
    let granules: BTreeSet<u64> = bundles.into_iter().flat_map(granules).collect();
    granules.len() as u64 * GRANULE_BYTES
}

/// The granules that a bundle's pages lie in.
fn granules(bundle: &ReplayBundle) -> BTreeSet<u64> {
    bundle.pages.iter().map(|page| page.address / GRANULE_BYTES * GRANULE_BYTES).collect()
}

/// Spans that hold all granules: aligned, of at least [`SPAN_BYTES`], none touching another.
fn spans(granules: &BTreeSet<u64>) -> Vec<AddressSpan> {
    let mut spans: Vec<AddressSpan> = Vec::new();
    for &granule in granules {
        let recorded = granule / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        match spans.last_mut() {
            Some(last) if recorded <= last.recorded.saturating_add(last.bytes) => {
                let needed = (granule - last.recorded) / ALIGNMENT_BYTES * ALIGNMENT_BYTES + ALIGNMENT_BYTES;
                last.bytes = last.bytes.max(needed);
            }
            _ => spans.push(AddressSpan { recorded, bytes: SPAN_BYTES }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn spans_hold_every_granule_and_are_apart(
            granules in prop::collection::btree_set(prop_oneof![0_u64..1 << 35, 0_u64..1 << 57, (1_u64 << 57) - (1 << 35)..1 << 57].prop_map(|at| at / GRANULE_BYTES * GRANULE_BYTES), 0..50),
        ) {
            let spans = spans(&granules);
            for granule in &granules {
                let holds = |span: &&AddressSpan| span.recorded <= *granule && granule + GRANULE_BYTES <= span.recorded + span.bytes;
                prop_assert_eq!(spans.iter().filter(holds).count(), 1);
            }
            for two in spans.windows(2) {
                prop_assert!(two[0].recorded + two[0].bytes < two[1].recorded);
            }
            for span in &spans {
                prop_assert!(span.recorded.is_multiple_of(ALIGNMENT_BYTES) && span.bytes >= SPAN_BYTES);
            }
        }
    }

    #[test]
    fn neighbours_share_a_span() {
        let granules = BTreeSet::from([0x7fc7_7ba0_0000, 0x7fc7_ade0_0000]);
        assert_eq!(spans(&granules), [AddressSpan { recorded: 0x7fc7_7a00_0000, bytes: SPAN_BYTES }]);
    }
}
