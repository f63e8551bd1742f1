//! Cubins: contents of stallmap's kernels, and treatment of damaged ones.

#![expect(clippy::unwrap_used, reason = "committed files can be read")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use stallmap_sass::cubin::{CodeSection, Cubin, CubinError, CubinParameter, KernelCallees};
use stallmap_sass::line::LineTable;
use stallmap_sass::word::Sm;

fn bytes(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cubins").join(name)).unwrap()
}

fn section<'a>(cubin: &'a Cubin, name: &str) -> &'a CodeSection {
    cubin.sections.iter().find(|section| section.name == name).unwrap()
}

/// (name, offset, bytes, bytes of the symbol, whether it is a kernel) of a section's functions.
fn functions(section: &CodeSection) -> Vec<(&str, u32, u32, u32, bool)> {
    let functions = section.functions.iter();
    functions.map(|f| (f.name.as_str(), f.offset, f.bytes, f.symbol_bytes, f.is_kernel)).collect()
}

#[test]
fn a_kernel_ends_where_the_functions_in_its_section_begin() {
    let cubin = Cubin::read(&bytes("nested.sm_90.abi8.cubin")).unwrap();
    assert_eq!((cubin.sm, cubin.damage.len()), (Sm(90), 0));
    let nested = section(&cubin, ".text._ZN6shapes6nestedEPfPKfi");
    assert_eq!(
        functions(nested),
        [
            ("_ZN6shapes6nestedEPfPKfi", 0, 0x2f0, 2944, true),
            ("$_ZN6shapes6nestedEPfPKfi$_Z6calledPKfi", 0x2f0, 320, 320, false),
            ("$__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath", 0x430, 1872, 1872, false),
        ]
    );
    assert_eq!(nested.function_at(0x2e0).unwrap().offset, 0);
    assert_eq!(nested.function_at(0x2f0).unwrap().offset, 0x2f0);
    assert_eq!(nested.function_at(2944), None);
}

#[test]
fn functions_of_the_driver_are_known_by_their_callers() {
    let cubin = Cubin::read(&bytes("driver_calls.sm_90.abi8.cubin")).unwrap();
    let calls = |kernel| Vec::from_iter(&section(&cubin, kernel).driver_calls);
    assert_eq!(calls(".text._Z6printsPj"), ["vprintf"]);
    assert_eq!(calls(".text._Z9allocatesPPj"), ["malloc"]);
    assert!(calls(".text._Z5plainPj").is_empty());
}

#[test]
fn both_flavours_say_what_the_driver_is_told() {
    for (name, sm, parameters_offset, registers) in [
        ("nested.sm_80.abi7.cubin", 80, 0x160, [18, 14, 24]),
        ("nested.sm_90.abi8.cubin", 90, 0x210, [18, 13, 22]),
        ("nested.sm_100.abi8.cubin", 100, 0x380, [16, 13, 22]),
    ] {
        let cubin = Cubin::read(&bytes(name)).unwrap();
        assert_eq!((cubin.sm, cubin.sections.len()), (Sm(sm), 3));
        let nested = section(&cubin, ".text._ZN6shapes6nestedEPfPKfi");
        let parameter = |ordinal, offset, bytes| CubinParameter { ordinal, offset, bytes };
        assert_eq!(
            nested.parameters,
            [parameter(0, 0, 8), parameter(1, 8, 8), parameter(2, 16, 4)],
            "{name}"
        );
        assert_eq!(nested.parameters_offset, Some(parameters_offset));
        // As cuobjdump -res-usage says.
        let names = ["_ZN6shapes6nestedEPfPKfi", "_Z6chosenPfif", "_Z4sumsIdEvPT_PKS0_"];
        let counts = names.map(|kernel| section(&cubin, &format!(".text.{kernel}")).registers);
        assert_eq!(counts, registers.map(Some), "{name}");
    }
}

#[test]
fn indirect_branches_have_their_targets() {
    let cubin = Cubin::read(&bytes("nested.sm_80.abi7.cubin")).unwrap();
    let targets = &section(&cubin, ".text._Z6chosenPfif").branch_targets;
    let expected = [
        (0xd0, vec![0xe0, 0x150, 0x580]),
        (0x1d0, vec![0x1e0, 0x2c0, 0x580]),
        (0x3b0, vec![0x3c0, 0x3e0, 0x580]),
        (0x450, vec![0x460, 0x4b0, 0x570]),
    ];
    assert_eq!(*targets, BTreeMap::from(expected));
    assert_eq!(section(&cubin, ".text._Z4sumsIdEvPT_PKS0_").branch_targets.len(), 0);
}

#[test]
fn relocations_with_and_without_addends_name_what_is_called() {
    let references = |name| {
        let cubin = Cubin::read(&bytes(name)).unwrap();
        section(&cubin, ".text._Z5callsPfPKfi").references.clone()
    };
    let named = |named: &[(u32, &str)]| {
        named.iter().map(|(at, name)| (*at, (*name).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let elsewhere = "_Z9elsewherePKfi";
    let older = [(0x80, elsewhere), (0xa0, elsewhere), (0x120, elsewhere), (0x200, "_Z4herePKfi$1")];
    assert_eq!(references("calls.sm_80.abi7.cubin"), named(&older));
    let newer = references("calls.sm_90.abi8.cubin");
    assert_eq!(newer.values().filter(|name| *name == elsewhere).count(), 3);
    assert!(newer.values().any(|name| name.starts_with("_Z4herePKfi")), "{newer:?}");
}

#[test]
fn a_kernel_executes_what_its_section_holds_and_what_its_code_names() {
    let cubin = Cubin::read(&bytes("nested.sm_90.abi8.cubin")).unwrap();
    let callees = KernelCallees::new(&cubin).unwrap();
    let nested = callees.for_kernel("_ZN6shapes6nestedEPfPKfi").unwrap();
    let inner = "$_ZN6shapes6nestedEPfPKfi$_Z6calledPKfi";
    assert!(nested.contains("_ZN6shapes6nestedEPfPKfi") && nested.contains(inner), "{nested:?}");
    assert!(!nested.contains("_Z6chosenPfif") && !nested.contains("_Z4sumsIdEvPT_PKS0_"), "{nested:?}");
    assert!(!callees.for_kernel("_Z6chosenPfif").unwrap().contains(inner));
    assert_eq!(callees.for_kernel("no such kernel"), None);
    for name in ["calls.sm_80.abi7.cubin", "calls.sm_90.abi8.cubin"] {
        let cubin = Cubin::read(&bytes(name)).unwrap();
        let called = KernelCallees::new(&cubin).unwrap().for_kernel("_Z5callsPfPKfi").unwrap();
        assert!(called.iter().any(|function| function.starts_with("_Z4herePKfi")), "{called:?}");
        // Its address stands in a variable.
        assert!(cubin.pointed.contains("_Z9elsewherePKfi"), "{:?}", cubin.pointed);
    }
}

#[test]
fn callees_of_a_linked_cubin_are_found_across_sections_and_by_pointers() {
    let cubin = Cubin::read(&bytes("linked.sm_90.abi8.cubin")).unwrap();
    let callees = KernelCallees::new(&cubin).unwrap();
    let of = |kernel| Vec::from_iter(callees.for_kernel(kernel).unwrap());
    let pointed = ["_Z5firstPKfi", "_Z6secondPKfi"];
    let root = "__cuda_sm20_sqrt_rn_f32_slowpath";
    assert_eq!(of("plain"), [pointed[0], pointed[1], "plain"]);
    assert_eq!(of("indirect"), [pointed[0], pointed[1], "indirect"]);
    let called = ["_Z4deepPKfi", pointed[0], pointed[1], "_Z9elsewherePKfi", root, "direct"];
    assert_eq!(of("direct"), called);
}

#[test]
fn a_damaged_cubin_does_not_say_what_is_executed() {
    let mut cubin = Cubin::read(&bytes("nested.sm_90.abi8.cubin")).unwrap();
    cubin.damage.push("a relocation lies outside its section".to_owned());
    assert!(KernelCallees::new(&cubin).is_none());
}

#[test]
fn what_is_no_cubin_is_refused_with_a_reason() {
    let message = |bytes: &[u8]| Cubin::read(bytes).unwrap_err().to_string();
    assert!(message(b"").starts_with("it is not a readable ELF file: "));
    assert!(message(b"\x7fELF and so on").starts_with("it is not a readable ELF file: "));
    let mut of_a_host = bytes("nested.sm_90.abi8.cubin");
    of_a_host[18] = 62;
    assert_eq!(Cubin::read(&of_a_host).unwrap_err(), CubinError::Machine { machine: 62 });
    let whole = bytes("nested.sm_90.abi8.cubin");
    assert!(message(&whole[..whole.len() / 2]).contains("table of sections"));
}

#[test]
fn a_damaged_section_does_not_take_the_others() {
    let mut damaged = bytes("nested.sm_90.abi8.cubin");
    let table = u64::from_le_bytes(*damaged[40..].first_chunk().unwrap());
    let headers = usize::try_from(table).unwrap();
    let count = usize::from(u16::from_le_bytes(*damaged[60..].first_chunk().unwrap()));
    let kernel = Cubin::read(&damaged).unwrap().sections[0].bytes.start as u64;
    let header = (0..count).map(|index| headers + index * 64);
    let number = |at: usize| u64::from_le_bytes(*damaged[at + 24..].first_chunk().unwrap());
    let header = header.into_iter().find(|at| number(*at) == kernel && damaged[at + 4] == 1).unwrap();
    damaged[header + 39] = 0x7f;
    let cubin = Cubin::read(&damaged).unwrap();
    assert_eq!(cubin.sections.len(), 2);
    assert!(cubin.damage[0].ends_with("reaches beyond the file"), "{:?}", cubin.damage);
}

#[test]
fn zeroed_code_is_as_good_as_any() {
    let mut zeroed = bytes("nested.sm_90.abi8.cubin");
    let whole = Cubin::read(&zeroed).unwrap();
    zeroed[whole.sections[1].bytes.clone()].fill(0);
    let cubin = Cubin::read(&zeroed).unwrap();
    assert_eq!(functions(&cubin.sections[1]), functions(&whole.sections[1]));
}

proptest! {
    /// Whatever is overwritten: an error, or a cubin whose parts lie in the file.
    #[test]
    fn overwritten_bytes_are_never_a_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut damaged = bytes("calls.sm_90.abi8.cubin");
        for (index, byte) in changes {
            let index = index.index(damaged.len());
            damaged[index] = byte;
        }
        if let Ok(cubin) = Cubin::read(&damaged) {
            for section in &cubin.sections {
                prop_assert!(section.bytes.end <= damaged.len());
                let length = u32::try_from(section.bytes.len()).unwrap();
                prop_assert!(section.functions.iter().all(|f| f.offset + f.bytes <= length && f.bytes <= f.symbol_bytes));
                prop_assert!(section.references.keys().all(|offset| *offset < length));
            }
            prop_assert!(LineTable::read(&damaged, &cubin).is_ok());
        }
    }
}
