//! Ops and regions. A trace has millions of them: what few ops have lies apart.

use std::num::NonZeroU32;
use std::rc::Rc;

use stallmap_schema::word::{OpKind, Phase};

use crate::trace::collective::CollectiveCall;
use crate::trace::model::TraceCall;

/// The place of another row, or none, in four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowLink(Option<NonZeroU32>);

impl RowLink {
    /// The place.
    pub fn get(self) -> Option<usize> {
        usize::try_from(self.0?.get() - 1).ok()
    }

    /// The link behind rows that were put in front.
    #[must_use]
    pub fn behind(self, rows: usize) -> Self {
        self.get().map(|place| place + rows).into()
    }
}

impl From<usize> for RowLink {
    /// Readers stop far below 2^32 rows: a place beyond is none.
    fn from(place: usize) -> Self {
        Self(u32::try_from(place).ok().and_then(|place| NonZeroU32::new(place.wrapping_add(1))))
    }
}

impl From<Option<usize>> for RowLink {
    fn from(place: Option<usize>) -> Self {
        place.map(Self::from).unwrap_or_default()
    }
}

/// An op or a region.
#[derive(Debug)]
pub struct TraceOp {
    /// Its process, by place.
    pub process: usize,
    /// The call.
    pub call: TraceCall,
    /// Its name.
    pub name: Rc<str>,
    /// The op around it.
    pub parent: RowLink,
    /// Its Python stack.
    pub stack: RowLink,
    /// The training step, numbered from 0.
    pub step: u32,
    /// Its kind.
    pub kind: OpKind,
    /// The part of the training step.
    pub phase: Phase,
    /// Other parts. None for most regions.
    pub details: Option<Box<OpDetails>>,
}

/// Parts of an op that few sources have.
#[derive(Clone, Debug, Default)]
pub struct OpDetails {
    /// The path of the modules around it, from the outermost to the innermost.
    pub module: Option<Rc<str>>,
    /// Autograd's sequence number.
    pub sequence: Option<i64>,
    /// In backward, the forward op.
    pub forward: RowLink,
    /// In a gradient, PyTorch's number of the thread that ran the forward op.
    pub forward_thread: Option<NonZeroU32>,
    /// PyTorch's number of the call, which its profiler and its execution traces share.
    pub record: Option<i64>,
    /// Its inputs, which calls of equal shapes share. None if the source does not have them.
    pub inputs: Option<Rc<[InputValue]>>,
    /// Its arguments as a collective. None if it is not one.
    pub collective: Option<Box<CollectiveCall>>,
}

/// An input of an op.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InputValue {
    /// Position among the inputs.
    pub position: u32,
    /// Position in a list of tensors.
    pub element: u32,
    /// The element type of a tensor, as PyTorch names it.
    pub dtype: Option<String>,
    /// Elements in each dimension of a tensor.
    pub sizes: Vec<i64>,
    /// Elements between neighbours in each dimension. Empty if the source does not have them.
    pub strides: Vec<i64>,
    /// The value of another input, as the source writes it.
    pub value: Option<String>,
}

impl TraceOp {
    /// An op of which nothing but its call and its name are known.
    pub fn for_call(call: TraceCall, kind: OpKind, name: impl Into<Rc<str>>) -> Self {
        Self {
            process: 0,
            call,
            name: name.into(),
            parent: RowLink::default(),
            stack: RowLink::default(),
            step: 0,
            kind,
            phase: Phase::Other,
            details: None,
        }
    }

    /// The op with details.
    #[must_use]
    pub fn with_details(self, details: OpDetails) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// The op behind ops and stacks that were put in front.
    #[must_use]
    pub fn moved(mut self, ops: usize, stacks: usize) -> Self {
        self.parent = self.parent.behind(ops);
        self.stack = self.stack.behind(stacks);
        if let Some(details) = &mut self.details {
            details.forward = details.forward.behind(ops);
        }
        self
    }

    /// Its details, to be changed.
    pub fn details_mut(&mut self) -> &mut OpDetails {
        self.details.get_or_insert_default()
    }

    /// The path of the modules around it.
    pub fn module(&self) -> Option<&Rc<str>> {
        self.details.as_ref()?.module.as_ref()
    }

    /// Autograd's sequence number.
    pub fn sequence(&self) -> Option<i64> {
        self.details.as_ref()?.sequence
    }

    /// PyTorch's number of the call.
    pub fn record(&self) -> Option<i64> {
        self.details.as_ref()?.record
    }

    /// In backward, the forward op.
    pub fn forward(&self) -> Option<usize> {
        self.details.as_ref()?.forward.get()
    }

    /// In a gradient, PyTorch's number of the thread that ran the forward op.
    pub fn forward_thread(&self) -> Option<NonZeroU32> {
        self.details.as_ref()?.forward_thread
    }

    /// Its inputs.
    pub fn inputs(&self) -> Option<&Rc<[InputValue]>> {
        self.details.as_ref()?.inputs.as_ref()
    }

    /// Its arguments as a collective.
    pub fn collective(&self) -> Option<&CollectiveCall> {
        self.details.as_ref()?.collective.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_places_or_none() {
        let last = usize::try_from(u32::MAX).unwrap();
        assert_eq!(RowLink::from(0).get(), Some(0));
        assert_eq!(RowLink::from(last - 1).get(), Some(last - 1));
        assert_eq!((RowLink::from(last).get(), RowLink::from(None).get()), (None, None));
        assert_eq!(RowLink::from(3).behind(4).get(), Some(7));
        assert_eq!(RowLink::default().behind(4).get(), None);
    }

    #[test]
    fn an_op_is_small() {
        assert!(size_of::<TraceOp>() <= 72, "{}", size_of::<TraceOp>());
    }
}
