//! Metrics of a kernel: a value, and values per instruction, address or time.

use crate::formats::proto::{ProtoReader, ProtoValue};

/// A metric.
#[derive(Default)]
pub(super) struct ReportMetric<'a> {
    /// The number of its name among the report's texts.
    pub(super) name: usize,
    /// Its value.
    pub(super) value: Option<MetricValue>,
    /// Its values per instance.
    pub(super) instances: Vec<ProtoReader<'a>>,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MetricValue {
    Float(f64),
    Integer(u64),
    Text,
}

impl<'a> ReportMetric<'a> {
    /// Reads a metric.
    pub(super) fn read(message: ProtoReader<'a>) -> Result<Self, String> {
        let mut metric = Self { name: usize::MAX, ..Self::default() };
        for field in message {
            match field? {
                (1, ProtoValue::Number(name)) => metric.name = usize::try_from(name).unwrap_or(usize::MAX),
                (2, ProtoValue::Message(value)) => metric.value = MetricValue::read(value)?,
                (3, ProtoValue::Message(instance)) => metric.instances.push(instance),
                _ => {}
            }
        }
        Ok(metric)
    }
}

impl MetricValue {
    /// Reads a value. None for one without content.
    pub(super) fn read(message: ProtoReader<'_>) -> Result<Option<Self>, String> {
        let mut found = None;
        for field in message {
            match field? {
                (1, ProtoValue::Message(_)) => found = Some(Self::Text),
                (2, ProtoValue::Four(bits)) => found = Some(Self::Float(f32::from_bits(bits).into())),
                (3, ProtoValue::Eight(bits)) => found = Some(Self::Float(f64::from_bits(bits))),
                (4 | 5, ProtoValue::Number(value)) => found = Some(Self::Integer(value)),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The value as a counter has it. None for texts and for what is not finite.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(value).filter(|value| value.is_finite()),
            Self::Integer(value) => Some(value as f64),
            Self::Text => None,
        }
    }

    /// The value as a count or an address.
    pub(super) fn integer(self) -> Option<u64> {
        if let Self::Integer(value) = self { Some(value) } else { None }
    }
}

/// One value of a metric with the address that it belongs to.
pub(super) fn instance(message: ProtoReader<'_>) -> Result<Option<(u64, u64)>, String> {
    let (mut address, mut value) = (None, None);
    for field in message {
        match field? {
            (1, ProtoValue::Message(scalar)) => address = MetricValue::read(scalar)?,
            (2, ProtoValue::Message(scalar)) => value = MetricValue::read(scalar)?,
            _ => {}
        }
    }
    Ok(address.and_then(MetricValue::integer).zip(value.and_then(MetricValue::integer)))
}
