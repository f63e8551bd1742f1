//! Barriers, fences, mbarriers and waits.

use super::family::{OpFamily, family};
use super::memory::{LaneWidth, OFFSET, access};
use super::operand::{
    A, D, FamilyOperand, OperandCondition, OperandRole, P, Q, RegisterCount, S, UA, UD, UP, read,
    uniform_read,
};
use crate::instruction::{ExecutionUnit, MemoryEffect, MemorySpace};

const fn sync(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Sync, operands)
}

/// An mbarrier's address.
const MBARRIER: FamilyOperand = A.role(OperandRole::Address);
const MBARRIER_BASE: FamilyOperand = uniform_read(64).role(OperandRole::Base);

/// The access of the mbarrier's instructions: its eight bytes.
const fn mbarrier(family: OpFamily, kind: MemoryEffect) -> OpFamily {
    family.memory(access(MemorySpace::Shared, kind, LaneWidth::Fixed(8), OFFSET))
}

pub(super) static FAMILIES: &[OpFamily] = &[
    sync(0x02d, "PREEXIT", &[]),
    sync(0x02e, "ACQBULK", &[]),
    sync(0x11a, "DEPBAR", &[]),
    sync(0x11b, "ENDCOLLECTIVE", &[]),
    sync(0x11c, "B2R", &[D, P]),
    sync(
        0x11d,
        "BAR",
        &[
            read(32).when(OperandCondition::Form(1 << 1 | 1 << 2 | 1 << 4)),
            Q.when(OperandCondition::Is(77, 3, 2)),
        ],
    ),
    sync(0x140, "CCTL", &[UA.wide(2)]),
    sync(0x148, "WARPSYNC", &[A]).forms(1 << 1).since(90),
    sync(0x148, "WARPSYNC", &[S]),
    sync(0x18f, "CCTL", &[A.width(RegisterCount::PairIf(72))]),
    sync(0x192, "MEMBAR", &[]),
    mbarrier(sync(0x1a7, "SYNCS", &[P, MBARRIER, MBARRIER_BASE, read(32)]).forms(1 << 2), MemoryEffect::Read),
    mbarrier(sync(0x1a7, "SYNCS", &[D.wide(2), MBARRIER, MBARRIER_BASE, read(32)]), MemoryEffect::Atomic),
    sync(0x1ab, "CGAERRBAR", &[]).forms(1 << 2),
    sync(0x1ab, "ERRBAR", &[]),
    sync(0x1af, "LDGDEPBAR", &[]),
    mbarrier(sync(0x1b0, "ARRIVES", &[MBARRIER, MBARRIER_BASE]), MemoryEffect::Atomic),
    sync(
        0x1b1,
        "SYNCS",
        &[A.when(OperandCondition::Set(91)), uniform_read(64).when(OperandCondition::Set(91))],
    ),
    mbarrier(
        sync(0x1b2, "SYNCS", &[UD.wide(2), UA.role(OperandRole::Base), uniform_read(32).wide(2)])
            .uniform_guard(),
        MemoryEffect::Atomic,
    ),
    sync(0x1c5, "WARPGROUP", &[]),
    sync(0x1c6, "FENCE", &[]),
    sync(0x1c7, "UCGABAR_ARV", &[]).forms(1 << 4),
    sync(0x1c7, "UCGABAR_WAIT", &[]).forms(1 << 6),
    sync(0x1ca, "UGETNEXTWORKID", &[UA.wide(2)]).uniform_guard(),
    // tcgen05: a signal when earlier matrix multiplications are done.
    mbarrier(
        sync(0x1e9, "UTCBAR", &[UA.role(OperandRole::Base), uniform_read(32), uniform_read(64)])
            .uniform_guard(),
        MemoryEffect::Atomic,
    ),
    sync(0x1e3, "UTCATOMSWS", &[UD, UP.when(OperandCondition::Form(1 << 2)), uniform_read(32)])
        .uniform_guard(),
];
