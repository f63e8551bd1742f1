//! Arguments of a collective, by the names that PyTorch's profiler gives them.

use crate::formats::decimal::integer;
use stallmap_schema::word::CollectiveKind;

use super::inputs::dtype;
use crate::model::CollectiveCall;

/// Arguments as they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectiveArguments {
    name: Option<String>,
    in_elements: Option<i64>,
    out_elements: Option<i64>,
    dtype: Option<String>,
    group: Option<String>,
    description: Option<String>,
    ranks: Option<String>,
    size: Option<i64>,
    sequence: Option<i64>,
    source: Option<i64>,
    destination: Option<i64>,
}

impl CollectiveArguments {
    /// Their names. Earlier releases have `size` where later ones have `nelems`: both count elements.
    pub(super) const NAMES: [&'static str; 13] = [
        "Collective name",
        "In msg nelems",
        "Out msg nelems",
        "In msg size",
        "Out msg size",
        "dtype",
        "Group size",
        "Process Group Name",
        "Process Group Description",
        "Process Group Ranks",
        "Seq",
        "Src Rank",
        "Dst Rank",
    ];

    /// Sets an argument.
    pub(super) fn put(&mut self, name: &str, value: String) {
        match name {
            "Collective name" => self.name = Some(value),
            "In msg nelems" | "In msg size" => self.in_elements = integer(&value),
            "Out msg nelems" | "Out msg size" => self.out_elements = integer(&value),
            "dtype" => self.dtype = Some(value),
            "Group size" => self.size = integer(&value),
            "Process Group Name" => self.group = Some(value),
            "Process Group Description" => self.description = Some(value),
            "Process Group Ranks" => self.ranks = Some(value),
            "Seq" => self.sequence = integer(&value),
            "Src Rank" => self.source = integer(&value),
            "Dst Rank" => self.destination = integer(&value),
            _ => {}
        }
    }

    /// The collective. Texts that are empty are none.
    pub(super) fn call(self) -> CollectiveCall {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let amount = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok());
        let name = text(self.name);
        let (dtype, element_bytes) = text(self.dtype).map(|name| dtype(&name)).unzip();
        let kind = name.as_deref().map_or(CollectiveKind::Other, CollectiveKind::from_call);
        CollectiveCall {
            name,
            in_elements: amount(self.in_elements),
            out_elements: amount(self.out_elements),
            dtype,
            element_bytes: element_bytes.flatten(),
            group: text(self.group),
            group_description: text(self.description),
            group_ranks: text(self.ranks).filter(|ranks| ranks != "[]"),
            group_size: self.size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0),
            sequence: self.sequence,
            peers: self
                .source
                .zip(self.destination)
                .filter(|(source, destination)| source.min(destination) >= &0),
            ..CollectiveCall::from_kind(kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_collective() {
        let mut arguments = CollectiveArguments::default();
        for (name, value) in [
            ("Collective name", "_allgather_base"),
            ("In msg nelems", "8"),
            ("Out msg nelems", "32"),
            ("dtype", "BFloat16"),
            ("Group size", "4"),
            ("Process Group Name", "3"),
            ("Process Group Ranks", "[]"),
            ("Seq", "17"),
        ] {
            arguments.put(name, value.to_owned());
        }
        let call = arguments.call();
        assert_eq!((call.kind, call.sequence), (CollectiveKind::AllGather, Some(17)));
        assert_eq!((call.in_elements, call.out_elements, call.element_bytes), (Some(8), Some(32), Some(2)));
        assert_eq!((call.dtype.as_deref(), call.group.as_deref()), (Some("bfloat16"), Some("3")));
        assert_eq!((call.group_ranks, call.group_size, call.peers), (None, Some(4), None));
    }
}
