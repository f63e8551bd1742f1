//! Collectives by the names of their kernels and calls.
//!
//! A kernel that exchanges data between GPUs is a collective, whichever library it is of: NCCL, RCCL, NVSHMEM, kernels of
//! symmetric memory, and the all-reduces that inference servers have of their own.

use crate::word::CollectiveKind;

/// Parts of the names of kernels that exchange data.
const LIBRARIES: [&str; 13] = [
    "ncclDevKernel",
    "ncclKernel",
    "ncclSymk",
    "rcclGenericKernel",
    "mscclKernel",
    "nvshmem",
    "multimem_",
    "one_shot_all_reduce",
    "two_shot_all_reduce",
    "cross_device_reduce",
    "allreduce_fusion_kernel",
    "deep_ep::",
    "quickreduce::",
];

/// Parts of names with the kind that they stand for. The first that a name holds counts.
const KINDS: [(&str, CollectiveKind); 16] = [
    ("allreduce", CollectiveKind::AllReduce),
    ("crossdevicereduce", CollectiveKind::AllReduce),
    ("oneshotreduce", CollectiveKind::AllReduce),
    ("quickreduce", CollectiveKind::AllReduce),
    ("allgather", CollectiveKind::AllGather),
    ("reducescatter", CollectiveKind::ReduceScatter),
    ("alltoall", CollectiveKind::AllToAll),
    ("deepep::", CollectiveKind::AllToAll),
    ("broadcast", CollectiveKind::Broadcast),
    ("barrier", CollectiveKind::Barrier),
    ("sendrecv", CollectiveKind::SendReceive),
    ("send", CollectiveKind::SendReceive),
    ("recv", CollectiveKind::SendReceive),
    ("scatter", CollectiveKind::Scatter),
    ("gather", CollectiveKind::Gather),
    ("reduce", CollectiveKind::Reduce),
];

impl CollectiveKind {
    /// The kind of a kernel, by its mangled or demangled name. None if it is not a collective.
    pub fn from_kernel(name: &str) -> Option<Self> {
        let own = LIBRARIES.iter().find_map(|part| from_word(name, part))?;
        Some(Self::from_call(own.split(['<', '(']).next().unwrap_or(own)))
    }

    /// The kind of a call, such as `allreduce` or `_allgather_base`.
    pub fn from_call(name: &str) -> Self {
        let plain: String =
            name.chars().filter(|letter| *letter != '_').map(|letter| letter.to_ascii_lowercase()).collect();
        KINDS.iter().find(|(part, _)| plain.contains(part)).map_or(Self::Other, |(_, kind)| *kind)
    }

    /// True if no rank can end before each has begun.
    pub const fn is_synchronizing(self) -> bool {
        matches!(
            self,
            Self::AllReduce | Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::Barrier
        )
    }
}

/// A name from a part on that no letter stands in front of. Lengths of mangled names are digits.
fn from_word<'a>(name: &'a str, part: &str) -> Option<&'a str> {
    let is_word = |at: usize| !name.get(..at).is_some_and(|before| before.ends_with(char::is_alphabetic));
    name.match_indices(part).find(|(at, _)| is_word(*at)).and_then(|(at, _)| name.get(at..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_all_libraries_are_collectives() {
        let kinds = [
            ("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*)", Some(CollectiveKind::AllReduce)),
            ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*)", Some(CollectiveKind::ReduceScatter)),
            ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage)", Some(CollectiveKind::Broadcast)),
            ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", Some(CollectiveKind::SendReceive)),
            ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", Some(CollectiveKind::Other)),
            ("_Z32ncclSymkDevKernel_AllGather_LLMC19ncclSymkDevWorkArgs", Some(CollectiveKind::AllGather)),
            (
                "void multimem_all_reduce_kernel<c10::BFloat16>(unsigned long)",
                Some(CollectiveKind::AllReduce),
            ),
            (
                "void (anonymous namespace)::two_shot_all_reduce_kernel<float>(float**)",
                Some(CollectiveKind::AllReduce),
            ),
            (
                "void vllm::cross_device_reduce_1stage<float, 8>(vllm::RankData*)",
                Some(CollectiveKind::AllReduce),
            ),
            ("void nvshmemi_broadcast_kernel<int>(int)", Some(CollectiveKind::Broadcast)),
            ("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", Some(CollectiveKind::AllToAll)),
            ("void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)", None),
            ("index_broadcast_kernel(int)", None),
        ];
        for (name, kind) in kinds {
            assert_eq!(CollectiveKind::from_kernel(name), kind, "{name}");
        }
    }

    #[test]
    fn calls_have_many_names() {
        let kinds = [
            ("allreduce", CollectiveKind::AllReduce),
            ("allreduce_coalesced", CollectiveKind::AllReduce),
            ("_allgather_base", CollectiveKind::AllGather),
            ("_reduce_scatter_base", CollectiveKind::ReduceScatter),
            ("all_to_allv", CollectiveKind::AllToAll),
            ("recv", CollectiveKind::SendReceive),
            ("wait", CollectiveKind::Other),
        ];
        for (name, kind) in kinds {
            assert_eq!(CollectiveKind::from_call(name), kind, "{name}");
        }
    }
}
