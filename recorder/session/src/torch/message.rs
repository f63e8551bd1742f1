//! Messages from Python as arrays of words, read with every bound checked: a wrong count must not read past the end.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use stallmap_schema::id::{Address, OpId, PystatesHash};
use stallmap_schema::word::{Direction, OpKind, Phase, RangeSource};

use super::texts;
use crate::ranges::RangeMetric;

/// The largest number of dimensions that is believed.
const MAX_DIMENSIONS: usize = 64;

/// The beginning of an op or region: kind (0 torch, 1 triton, 2 region), name, phase (0 forward, 1 backward,
/// 2 optimizer, 3 other), step, sequence number or -1, autograd node's name, forward op or 0, module path,
/// 1 where the stack is known, its hash. Tensor records follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpBeginning {
    /// The kind of call.
    pub kind: OpKind,
    /// Its name.
    pub name: &'static str,
    /// The part of the training step.
    pub phase: Phase,
    /// Optimizer steps finished before.
    pub step: u32,
    /// Autograd's sequence number.
    pub sequence_number: Option<i64>,
    /// The autograd node that runs.
    pub autograd_node: Option<&'static str>,
    /// The forward op whose gradient this one computes.
    pub forward_op_id: Option<OpId>,
    /// The innermost module.
    pub module_path: Option<&'static str>,
    /// The Python stack.
    pub pystates_hash: Option<PystatesHash>,
    /// The arguments' tensors.
    pub tensors: Vec<SeenTensor>,
}

/// The end of an op or region: its op_id. Tensor records of its results follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpEnding {
    /// The op.
    pub op_id: OpId,
    /// The results' tensors.
    pub tensors: Vec<SeenTensor>,
}

/// The beginning of a range: source (0 torch, 1 stallmap), name. Its numbers follow: name, bits of the value, unit or 0.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeOpening {
    /// The interface that names it.
    pub source: RangeSource,
    /// Its name.
    pub name: &'static str,
    /// Its numbers.
    pub metrics: Vec<RangeMetric>,
}

/// Numbers of a region: its op_id. The numbers follow, as those of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionMetrics {
    /// The region.
    pub op_id: OpId,
    /// Its numbers.
    pub metrics: Vec<RangeMetric>,
}

/// Sources of ranges by number.
pub const SOURCES: [RangeSource; 2] = [RangeSource::Torch, RangeSource::Stallmap];

/// The role of a tensor in the model: its name or 0, its role. Its tensor record follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRole {
    /// Dotted name.
    pub name: Option<&'static str>,
    /// parameter, gradient, buffer or optimizer_state.
    pub role: &'static str,
    /// The tensor.
    pub tensor: SeenTensor,
}

/// A tensor as Python saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTensor {
    /// Its part in the op. None where it is only mentioned.
    pub direction: Option<Direction>,
    /// Position among the arguments or results.
    pub position: u32,
    /// Position in a list.
    pub element: u32,
    /// The argument's name.
    pub argument: Option<&'static str>,
    /// Index of the tensor of this op that it is a view of: the arguments count on into the results.
    pub base: Option<usize>,
    /// CUDA's device ordinal.
    pub device_id: i32,
    /// First address of its storage.
    pub storage_address: Address,
    /// Bytes of its storage, as PyTorch requested them.
    pub storage_bytes: u64,
    /// Address of its first element.
    pub address: Address,
    /// Element type.
    pub dtype: &'static str,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// True if it is an nn.Parameter.
    pub is_parameter: bool,
    /// Elements in each dimension.
    pub sizes: Vec<i64>,
    /// Elements between neighbours in each dimension.
    pub strides: Vec<i64>,
}

/// Words that are not the message that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedMessage;

impl OpBeginning {
    /// Reads the words.
    pub fn read(words: &[i64]) -> Result<Self, MalformedMessage> {
        let mut words = MessageWords(words);
        Ok(Self {
            kind: words.choice(&[OpKind::Torch, OpKind::Triton, OpKind::Region])?,
            name: words.text()?,
            phase: words.choice(&[Phase::Forward, Phase::Backward, Phase::Optimizer, Phase::Other])?,
            step: words.number()?,
            sequence_number: Some(words.next()?).filter(|&number| number >= 0),
            autograd_node: words.optional_text()?,
            forward_op_id: Some(words.unsigned()?).filter(|&id| id != 0).map(OpId),
            module_path: words.optional_text()?,
            pystates_hash: words.state()?,
            tensors: words.tensors()?,
        })
    }

    /// Hash of the shapes of the arguments' tensors, whatever their addresses. It holds in this process. 0 for regions.
    pub fn shapes_hash(&self) -> u64 {
        if self.kind == OpKind::Region {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        for SeenTensor { dtype, sizes, strides, .. } in &self.tensors {
            (dtype, sizes, strides).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl OpEnding {
    /// Reads the words.
    pub fn read(words: &[i64]) -> Result<Self, MalformedMessage> {
        let mut words = MessageWords(words);
        Ok(Self { op_id: OpId(words.unsigned()?), tensors: words.tensors()? })
    }
}

impl RangeOpening {
    /// Reads the words.
    pub fn read(words: &[i64]) -> Result<Self, MalformedMessage> {
        let mut words = MessageWords(words);
        Ok(Self { source: words.choice(&SOURCES)?, name: words.text()?, metrics: words.metrics()? })
    }
}

impl RegionMetrics {
    /// Reads the words.
    pub fn read(words: &[i64]) -> Result<Self, MalformedMessage> {
        let mut words = MessageWords(words);
        Ok(Self { op_id: OpId(words.unsigned()?), metrics: words.metrics()? })
    }
}

impl TensorRole {
    /// Reads the words, which hold any number of such messages.
    pub fn read_all(words: &[i64]) -> Result<Vec<Self>, MalformedMessage> {
        let mut words = MessageWords(words);
        let mut names = Vec::new();
        while !words.0.is_empty() {
            names.push(Self { name: words.optional_text()?, role: words.text()?, tensor: words.tensor()? });
        }
        Ok(names)
    }
}

/// The words that are still to be read.
struct MessageWords<'a>(&'a [i64]);

impl MessageWords<'_> {
    fn next(&mut self) -> Result<i64, MalformedMessage> {
        let (&first, rest) = self.0.split_first().ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(first)
    }

    fn unsigned(&mut self) -> Result<u64, MalformedMessage> {
        self.next().map(i64::cast_unsigned)
    }

    fn number<T: TryFrom<i64>>(&mut self) -> Result<T, MalformedMessage> {
        T::try_from(self.next()?).map_err(|_| MalformedMessage)
    }

    fn choice<T: Copy>(&mut self, choices: &[T]) -> Result<T, MalformedMessage> {
        choices.get(self.number::<usize>()?).copied().ok_or(MalformedMessage)
    }

    fn text(&mut self) -> Result<&'static str, MalformedMessage> {
        texts::text(self.next()?).ok_or(MalformedMessage)
    }

    /// A text or none. A number that stands for no text is refused.
    fn optional_text(&mut self) -> Result<Option<&'static str>, MalformedMessage> {
        match self.next()? {
            texts::NONE => Ok(None),
            number => texts::text(number).map(Some).ok_or(MalformedMessage),
        }
    }

    fn state(&mut self) -> Result<Option<PystatesHash>, MalformedMessage> {
        let is_known = self.next()? != 0;
        let hash = self.unsigned()?;
        Ok(is_known.then_some(PystatesHash(hash)))
    }

    fn metrics(&mut self) -> Result<Vec<RangeMetric>, MalformedMessage> {
        let mut metrics = Vec::new();
        while !self.0.is_empty() {
            let name = self.text()?.to_owned();
            let value = f64::from_bits(self.unsigned()?);
            metrics.push(RangeMetric { name, value, unit: self.optional_text()?.map(str::to_owned) });
        }
        Ok(metrics)
    }

    fn tensors(&mut self) -> Result<Vec<SeenTensor>, MalformedMessage> {
        let mut tensors = Vec::new();
        while !self.0.is_empty() {
            tensors.push(self.tensor()?);
        }
        Ok(tensors)
    }

    fn tensor(&mut self) -> Result<SeenTensor, MalformedMessage> {
        let mut seen = SeenTensor {
            direction: self.choice(&[
                Some(Direction::In),
                Some(Direction::Out),
                Some(Direction::InOut),
                None,
            ])?,
            position: self.number()?,
            element: self.number()?,
            argument: self.optional_text()?,
            base: usize::try_from(self.next()?).ok(),
            device_id: self.number()?,
            storage_address: Address(self.unsigned()?),
            storage_bytes: self.unsigned()?,
            address: Address(self.unsigned()?),
            dtype: self.text()?,
            element_bytes: self.number()?,
            is_parameter: self.next()? != 0,
            sizes: Vec::new(),
            strides: Vec::new(),
        };
        let dimensions =
            self.number().ok().filter(|&count| count <= MAX_DIMENSIONS).ok_or(MalformedMessage)?;
        seen.sizes = self.list(dimensions)?;
        seen.strides = self.list(dimensions)?;
        Ok(seen)
    }

    fn list(&mut self, count: usize) -> Result<Vec<i64>, MalformedMessage> {
        let (list, rest) = self.0.split_at_checked(count).ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(list.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor() -> Vec<i64> {
        vec![
            2,
            1,
            0,
            texts::number("mat2"),
            -1,
            0,
            4096,
            64,
            4104,
            texts::number("float32"),
            4,
            1,
            2,
            2,
            3,
            3,
            1,
        ]
    }

    fn begin() -> Vec<i64> {
        let mut words =
            vec![0, texts::number("aten::mm.default"), 1, 7, -1, texts::number("MmBackward0"), 3, 0, 1, -2];
        words.extend(tensor());
        words
    }

    #[test]
    fn an_op_is_read() {
        let op = OpBeginning::read(&begin()).unwrap();
        assert_eq!((op.name, op.phase, op.step), ("aten::mm.default", Phase::Backward, 7));
        assert_eq!((op.sequence_number, op.autograd_node), (None, Some("MmBackward0")));
        assert_eq!((op.forward_op_id, op.module_path), (Some(OpId(3)), None));
        assert_eq!(op.pystates_hash, Some(PystatesHash(u64::MAX - 1)));
        let seen = &op.tensors[0];
        assert_eq!((seen.direction, seen.argument), (Some(Direction::InOut), Some("mat2")));
        assert_eq!((&seen.sizes[..], &seen.strides[..]), (&[2, 3][..], &[3, 1][..]));
    }

    #[test]
    fn shapes_are_equal_wherever_tensors_lie() {
        let op = OpBeginning::read(&begin()).unwrap();
        let with = |change: fn(&mut OpBeginning)| {
            let mut other = op.clone();
            change(&mut other);
            other.shapes_hash()
        };
        let same = with(|op| op.tensors[0].address = Address(0));
        let longer = with(|op| op.tensors[0].sizes[0] = 5);
        let transposed = with(|op| op.tensors[0].strides.reverse());
        assert_eq!(same, op.shapes_hash());
        assert!(![longer, transposed, 0].contains(&op.shapes_hash()));
        assert_eq!(with(|op| op.kind = OpKind::Region), 0);
    }

    #[test]
    fn every_truncation_is_refused() {
        let words = begin();
        let complete = [10, words.len()];
        for length in (0..words.len()).filter(|length| !complete.contains(length)) {
            assert_eq!(OpBeginning::read(&words[..length]), Err(MalformedMessage), "{length} words");
        }
    }

    #[test]
    fn ranges_have_numbers_with_units() {
        let flops = [texts::number("flops"), 3.5_f64.to_bits().cast_signed(), texts::number("flop")];
        let words = [&[1, texts::number("gemm")], &flops[..], &[texts::number("tokens"), 0, 0]].concat();
        let range = RangeOpening::read(&words).unwrap();
        let number = |metric: &RangeMetric| (metric.name.clone(), metric.value, metric.unit.clone());
        let numbers = [("flops".into(), 3.5, Some("flop".into())), ("tokens".into(), 0.0, None)];
        assert_eq!((range.source, range.name), (RangeSource::Stallmap, "gemm"));
        assert_eq!(range.metrics.iter().map(number).collect::<Vec<_>>(), numbers);
        assert_eq!(RangeOpening::read(&words[..4]), Err(MalformedMessage));
        assert_eq!(RangeOpening::read(&[2, words[1]]), Err(MalformedMessage));
        assert_eq!(RegionMetrics::read(&[]), Err(MalformedMessage));
    }

    #[test]
    fn absurd_counts_are_refused() {
        let mut words = tensor();
        words[12] = i64::MAX;
        assert_eq!(OpEnding::read(&[&[1], &words[..]].concat()), Err(MalformedMessage));
        words[12] = -1;
        assert_eq!(OpEnding::read(&[&[1], &words[..]].concat()), Err(MalformedMessage));
    }
}
