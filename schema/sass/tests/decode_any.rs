//! Decoding of any bits, to registers that the architecture has.

use proptest::prelude::*;

use stallmap_sass::control::BARRIERS;
use stallmap_sass::decode;
use stallmap_sass::instruction::{BarrierWait, ExecutionUnit, SassInstruction, WarpFlow};
use stallmap_sass::register::{Register, RegisterFile};
use stallmap_sass::word::{InstructionWord, Sm};

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bits_decode(bits: u128, sm in 0_u32..200) {
        check(bits, sm)?;
    }

    /// Few random bits are a known operation, so all of these are of a form that code has.
    #[test]
    fn any_fields_of_an_operation_decode(bits: u128, opcode in 0_u128..0x1000, sm in 70_u32..122) {
        check((bits & !0xfff) | opcode, sm)?;
    }
}

fn check(bits: u128, sm: u32) -> Result<(), TestCaseError> {
    let instruction = decode(InstructionWord(bits), Sm(sm));
    for register in instruction.reads.or(&instruction.writes).iter() {
        prop_assert!(exists(register, sm), "{register} of sm_{sm} in {instruction}");
    }
    if instruction.mnemonic.is_none() {
        prop_assert_eq!(instruction.class, ExecutionUnit::Unknown);
        prop_assert_eq!(instruction.flow, WarpFlow::Next);
        prop_assert!(instruction.writes.is_empty());
        prop_assert!(instruction.memory.is_none());
    }
    if let Some(guard) = instruction.guard.filter(|guard| guard.register.index < 7) {
        prop_assert!(instruction.reads.contains(guard.register));
    }
    prop_assert!(!instruction.to_string().is_empty());
    Ok(())
}

fn exists(register: Register, sm: u32) -> bool {
    match register.file {
        RegisterFile::General => register.index < 255,
        RegisterFile::Uniform => register.index < if sm < 100 { 63 } else { 255 },
        RegisterFile::Predicate | RegisterFile::UniformPredicate => register.index < 7,
        RegisterFile::Convergence => register.index < 16,
    }
}

fn sm_90(high: u64, low: u64) -> SassInstruction {
    decode(InstructionWord(u128::from(high) << 64 | u128::from(low)), Sm(90))
}

#[test]
fn masks_name_the_predicates() {
    // P2R R14, PR, RZ, 0x9 and R2P PR, R5, 0x6
    assert_eq!(sm_90(0x000f_e200_0000_0000, 0x0000_0009_ff0e_7803).reads.to_string(), "P0 P3");
    assert_eq!(sm_90(0x000f_e200_0000_0000, 0x0000_0006_0500_7804).writes.to_string(), "P1-P2");
}

#[test]
fn an_unknown_operation_keeps_its_guard_and_its_control_word() {
    let unknown = sm_90(0x003f_e400_0000_0000, 0x0000_0000_0000_21ff);
    assert_eq!(unknown.mnemonic, None);
    assert_eq!(unknown.guard.expect("@P2").to_string(), "@P2");
    assert_eq!(unknown.reads.to_string(), "P2");
    assert_eq!(unknown.control.stall_cycles, 2);
    assert_eq!(unknown.control.wait_mask, 3);
    assert_eq!(BARRIERS, 6);
}

#[test]
fn convergence_registers_are_read_and_written() {
    // BSSY B2, .+0x50 and BSYNC B2
    let bssy = sm_90(0x000f_e200_0380_0000, 0x0000_0050_0002_7945);
    assert_eq!((bssy.writes.to_string(), bssy.flow), ("B2".to_owned(), WarpFlow::Next));
    assert_eq!(sm_90(0x000f_e200_0380_0000, 0x0000_0000_0002_7941).reads.to_string(), "B2");
}

#[test]
fn waits_have_their_counts() {
    // DEPBAR.LE SB5, 0x3; DEPBAR {2,0}; WARPGROUP.DEPBAR.LE gsb0, 0x1
    let counted = sm_90(0, 0x0000_d0c0_0000_791a).barrier_wait();
    assert_eq!(counted, Some(BarrierWait::Scoreboard { counted: Some((5, 3)), empty: 0 }));
    let empty = sm_90(0, 0x0000_0005_0000_791a).barrier_wait();
    assert_eq!(empty, Some(BarrierWait::Scoreboard { counted: None, empty: 5 }));
    let groups = sm_90(0x0001_0100, 0x0000_8000_0000_79c5).barrier_wait();
    assert_eq!(groups, Some(BarrierWait::Warpgroup { pending: 1 }));
    assert_eq!(sm_90(0, 0x79c5).barrier_wait(), None);
}

#[test]
fn accesses_have_their_addresses() {
    // LDG.E.128.CONSTANT R4, desc[UR8][R10.64+-0x10]
    let load = sm_90(0x000e_a200_0c1e_9d00, 0xffff_f008_0a04_7981);
    assert_eq!(load.to_string(), "LDG.E.128.CONSTANT R4-R7 <- R10-R11 UR8-UR9 -0x10");
    let memory = load.memory.expect("a load");
    assert_eq!((memory.bytes, memory.offset), (16, -16));
    // LDCU.64 UR8, c[0x0][0x358] and ATOMG.E.ADD.F32.FTZ.RN.STRONG.GPU PT, RZ, desc[UR8][R2.64], R19 of sm_100
    let blackwell = |high: u64, low: u64| {
        decode(InstructionWord(u128::from(high) << 64 | u128::from(low)), Sm(100)).memory
    };
    let constant = blackwell(0x0800_0a00, 0x0000_6b00_ff08_77ac).expect("a load");
    assert_eq!((constant.bytes, constant.offset), (8, 0x358));
    let atomic = blackwell(0x0c1e_f304, 0x8000_0013_02ff_79a3).expect("an atomic");
    assert_eq!((atomic.bytes, atomic.offset), (4, 0));
    // UTMALDG.3D [UR16], [UR34]: the tensor map's address is UR34 and UR35, the mbarrier's is UR17.
    let copy = sm_90(0x0801_0000, 0x0000_0010_2200_75b4);
    assert_eq!(
        copy.memory.and_then(|memory| memory.uniform).map(|register| register.to_string()).as_deref(),
        Some("UR34")
    );
    assert_eq!(copy.copy_mbarrier().map(|register| register.to_string()).as_deref(), Some("UR17"));
    // SYNCS.PHASECHK.TRANS64.TRYWAIT P2, [UR6], R4
    let wait = sm_90(0x0804_0146, 0x0000_0004_ff00_85a7);
    let memory = wait.memory.expect("an mbarrier");
    assert_eq!((memory.address, memory.uniform.map(|register| register.index)), (None, Some(6)));
    assert_eq!(wait.writes.to_string(), "P2");
}

#[test]
fn branches_have_their_targets() {
    // BRA .+-0x10 is a loop of one; @P0 EXIT may go on.
    let forever = sm_90(0x000f_c000_0383_ffff, 0xffff_fffc_00fc_7947);
    assert_eq!(forever.flow, WarpFlow::Branch { displacement: -16, conditional: false });
    assert_eq!(
        sm_90(0x000f_ea00_0380_0000, 0x0000_0000_0000_094d).flow,
        WarpFlow::Exit { conditional: true }
    );
}
