//! Format of cached analyses: numbers, little endian, after their hash.
//!
//! Input is untrusted: a file that is truncated, unrecognized, of another version or of another section is ignored.

use stallmap_sass::instruction::{ExecutionUnit, MemorySpace};
use stallmap_sass::slice::analysis::{
    AccessPointer, BarrierSignal, CodeBlock, CopyPointer, CopyTensorMap, FillKind, PointerStore,
    ProducerConfidence, ProducerLink, SharedMemoryFill, WaitClass, WaitProducer,
};
use stallmap_sass::slice::axes::GridAxes;

use super::findings::{MemoryInstruction, SectionFindings};

/// The first bytes of a file. The last of them is the version of this layout.
const MAGIC: [u8; 16] = *b"stallmap code 8\n";
/// Bytes of a BLAKE3 hash.
const HASH_BYTES: usize = 32;
/// Placeholder for a missing distance: no path of a section is that long.
const NO_DISTANCE: u32 = u32::MAX;
/// Stands for dimensions of the grid that are not known.
const NO_AXES: u8 = u8::MAX;
/// Bytes before the findings.
const HEAD_BYTES: usize = MAGIC.len() + 2 * HASH_BYTES;

/// The bytes of a file for a section's analysis.
pub(super) fn encode(key: &blake3::Hash, findings: &SectionFindings) -> Vec<u8> {
    let mut body = AnalysisWriter::default();
    body.list(&findings.unknown, |body, offset| body.number(*offset));
    body.list(&findings.memory, |body, memory| {
        body.number(memory.offset);
        body.0.extend([memory.class.code(), memory.space.code()]);
    });
    body.list(&findings.blocks, |body, block| {
        body.number(block.first);
        body.number(block.last);
        body.list(&block.successors, |body, successor| body.number(*successor));
    });
    body.list(&findings.producers, |body, producer| {
        body.number(producer.waiter);
        body.number(producer.producer);
        body.number(producer.distance_cycles.unwrap_or(NO_DISTANCE));
        body.number(producer.covered_cycles.unwrap_or(NO_DISTANCE));
        body.number(producer.slot);
        body.0.extend(producer.weight.to_le_bytes());
        body.0.extend([producer.wait.code(), producer.link.code(), producer.confidence.code()]);
    });
    body.list(&findings.tensor_maps, |body, map| {
        body.number(map.offset);
        body.number(map.parameter_offset);
        body.axes(map.axes);
    });
    for pointers in [&findings.pointers, &findings.pointer_arrays] {
        body.list(pointers, |body, pointer| {
            body.number(pointer.offset);
            body.number(pointer.parameter_offset);
            body.axes(pointer.axes);
        });
    }
    body.list(&findings.pointer_stores, |body, store| {
        body.number(store.offset);
        body.number(store.parameter_offset);
        body.number(store.stored_offset);
    });
    body.list(&findings.accesses, |body, access| {
        body.number(access.offset);
        body.number(access.parameter_offset);
    });
    body.list(&findings.signals, |body, signal| {
        body.number(signal.offset);
        body.list(&signal.work, |body, offset| body.number(*offset));
    });
    body.list(&findings.fills, |body, fill| {
        body.number(fill.offset);
        body.number(fill.fill);
        body.0.extend(fill.share.to_le_bytes());
        body.0.push(fill.kind.code());
    });
    let mut bytes = MAGIC.to_vec();
    bytes.extend(key.as_bytes());
    bytes.extend(blake3::hash(&body.0).as_bytes());
    bytes.extend(body.0);
    bytes
}

/// The analysis in a file's bytes, if it is complete and of this section.
pub(super) fn decode(key: &blake3::Hash, bytes: &[u8]) -> Option<SectionFindings> {
    let (head, body) = bytes.split_at_checked(HEAD_BYTES)?;
    let mut expected = MAGIC.to_vec();
    expected.extend(key.as_bytes());
    expected.extend(blake3::hash(body).as_bytes());
    if head != expected {
        return None;
    }
    let mut body = AnalysisReader(body);
    let findings = SectionFindings {
        unknown: body.list(AnalysisReader::number)?,
        memory: body.list(|body| {
            Some(MemoryInstruction {
                offset: body.number()?,
                class: ExecutionUnit::from_code(body.byte()?)?,
                space: MemorySpace::from_code(body.byte()?)?,
            })
        })?,
        blocks: body.list(|body| {
            Some(CodeBlock {
                first: body.number()?,
                last: body.number()?,
                successors: body.list(AnalysisReader::number)?,
            })
        })?,
        producers: body.list(producer)?,
        tensor_maps: body.list(|body| {
            Some(CopyTensorMap {
                offset: body.number()?,
                parameter_offset: body.number()?,
                axes: body.axes()?,
            })
        })?,
        pointers: body.list(copy_pointer)?,
        pointer_arrays: body.list(copy_pointer)?,
        pointer_stores: body.list(|body| {
            Some(PointerStore {
                offset: body.number()?,
                parameter_offset: body.number()?,
                stored_offset: body.number()?,
            })
        })?,
        accesses: body
            .list(|body| Some(AccessPointer { offset: body.number()?, parameter_offset: body.number()? }))?,
        signals: body.list(|body| {
            Some(BarrierSignal { offset: body.number()?, work: body.list(AnalysisReader::number)? })
        })?,
        fills: body.list(|body| {
            Some(SharedMemoryFill {
                offset: body.number()?,
                fill: body.number()?,
                share: f64::from_le_bytes(body.take()?),
                kind: FillKind::from_code(body.byte()?)?,
            })
        })?,
    };
    body.0.is_empty().then_some(findings)
}

fn copy_pointer(body: &mut AnalysisReader<'_>) -> Option<CopyPointer> {
    Some(CopyPointer { offset: body.number()?, parameter_offset: body.number()?, axes: body.axes()? })
}

fn producer(body: &mut AnalysisReader<'_>) -> Option<WaitProducer> {
    Some(WaitProducer {
        waiter: body.number()?,
        producer: body.number()?,
        distance_cycles: distance(body.number()?),
        covered_cycles: distance(body.number()?),
        slot: body.number()?,
        weight: f64::from_le_bytes(body.take()?),
        wait: WaitClass::from_code(body.byte()?)?,
        link: ProducerLink::from_code(body.byte()?)?,
        confidence: ProducerConfidence::from_code(body.byte()?)?,
    })
}

fn distance(cycles: u32) -> Option<u32> {
    Some(cycles).filter(|cycles| *cycles != NO_DISTANCE)
}

#[derive(Default)]
struct AnalysisWriter(Vec<u8>);

impl AnalysisWriter {
    fn axes(&mut self, axes: Option<GridAxes>) {
        self.0.push(axes.map_or(NO_AXES, GridAxes::bits));
    }

    fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn list<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        // Offsets in a section have 32 bits, which bounds the length of a list.
        self.number(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for item in items {
            write(self, item);
        }
    }
}

struct AnalysisReader<'a>(&'a [u8]);

impl AnalysisReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// The axes, which may be unknown. None where the file ends.
    #[expect(clippy::option_option, reason = "each method has nothing where the file ends")]
    fn axes(&mut self) -> Option<Option<GridAxes>> {
        match self.byte()? {
            NO_AXES => Some(None),
            bits => GridAxes::from_bits(bits).map(Some),
        }
    }

    /// A list grows with its items: a wrong count reserves nothing.
    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Some(items)
    }
}

/// An enum value stored as a number.
trait CodedEnum: Sized {
    fn code(self) -> u8;
    fn from_code(code: u8) -> Option<Self>;
}

macro_rules! coded {
    ($($type:ty: $($variant:ident $code:literal),+;)+) => {$(
        impl CodedEnum for $type {
            fn code(self) -> u8 {
                match self { $(Self::$variant => $code,)+ }
            }

            fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }
        }
    )+};
}

coded! {
    WaitClass: LongScoreboard 0, ShortScoreboard 1, Stores 2;
    ProducerLink: Reads 0, Overwrites 1, Reuses 2, Barrier 3, Group 4, Mbarrier 5, Store 6, InOrder 7;
    FillKind: Copy 0, Load 1, Computed 2;
    ProducerConfidence: Exact 0, Refined 1, Shared 2, Approximate 3, Low 4;
    MemorySpace: Global 0, Generic 1, Local 2, Shared 3, Constant 4, Texture 5, TensorMemory 6;
    ExecutionUnit: Alu 0, Fma 1, Half 2, Double 3, Tensor 4, Special 5, Uniform 6, Constant 7, Global 8, Local 9, Shared 10,
        Texture 11, Async 12, Shuffle 13, Sync 14, Control 15, Misc 16, Unknown 17;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> SectionFindings {
        SectionFindings {
            unknown: vec![0x40],
            memory: vec![MemoryInstruction {
                offset: 0x10,
                class: ExecutionUnit::Async,
                space: MemorySpace::TensorMemory,
            }],
            blocks: vec![CodeBlock { first: 0, last: 0x30, successors: vec![0, 0x40] }],
            producers: vec![WaitProducer {
                waiter: 0x30,
                wait: WaitClass::Stores,
                producer: 0x10,
                link: ProducerLink::Mbarrier,
                distance_cycles: Some(7),
                covered_cycles: Some(5),
                slot: 1,
                weight: 0.1,
                confidence: ProducerConfidence::Low,
            }],
            tensor_maps: vec![CopyTensorMap {
                offset: 0x10,
                parameter_offset: 128,
                axes: GridAxes::from_bits(5),
            }],
            pointers: vec![CopyPointer { offset: 0x20, parameter_offset: 8, axes: None }],
            pointer_arrays: vec![CopyPointer { offset: 0x20, parameter_offset: 16, axes: None }],
            pointer_stores: vec![PointerStore { offset: 0x30, parameter_offset: 16, stored_offset: 8 }],
            accesses: vec![AccessPointer { offset: 0x30, parameter_offset: 16 }],
            signals: vec![BarrierSignal { offset: 0x30, work: vec![0x10, 0x30] }],
            fills: vec![SharedMemoryFill { offset: 0x30, fill: 0x10, kind: FillKind::Load, share: 0.5 }],
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let key = blake3::hash(b"section");
        assert_eq!(decode(&key, &encode(&key, &findings())), Some(findings()));
        assert_eq!(
            decode(&key, &encode(&key, &SectionFindings::default())),
            Some(SectionFindings::default())
        );
    }

    #[test]
    fn damaged_and_foreign_files_are_none() {
        let key = blake3::hash(b"section");
        let whole = encode(&key, &findings());
        assert_eq!(decode(&blake3::hash(b"another"), &whole), None);
        for length in 0..whole.len() {
            assert_eq!(decode(&key, &whole[..length]), None, "{length} bytes");
        }
        for index in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[index] ^= 0x10;
            assert_eq!(decode(&key, &damaged), None, "byte {index}");
        }
        let more = [&whole[..], b"more"].concat();
        assert_eq!(decode(&key, &more), None);
    }
}
