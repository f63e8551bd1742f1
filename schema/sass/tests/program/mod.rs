//! An assembler for small programs of tests.

use stallmap_sass::word::Sm;

pub(crate) const SM: Sm = Sm(90);

/// Instructions as ptxas makes them, operands and scheduling to be filled in: upper and lower half.
const TEMPLATES: &[(&str, u64, u64)] = &[
    ("LDG", 0x0000_0000_0c1e_1900, 0x0000_0004_0202_7981),
    ("LDG.64", 0x0000_0000_0c1e_1b00, 0x0000_0004_0202_7981),
    ("STG", 0x0000_0000_0c10_1906, 0x0000_0009_0200_7986),
    ("ATOMG", 0x0000_0000_081e_e1c4, 0x0000_000f_0606_79a8),
    ("LDS", 0x0000_0000_0000_0800, 0x0000_0000_0609_7984),
    ("SYNCS.ARRIVE", 0x0000_0000_0810_043f, 0x0000_0000_0000_79a7),
    ("SYNCS.TRYWAIT", 0x0000_0000_0806_013f, 0x0000_0000_0000_75a7),
    ("S2R", 0x0000_0000_0000_2100, 0x0000_0000_0000_7919),
    ("S2R.CTAID.X", 0x0000_0000_0000_2500, 0x0000_0000_0000_7919),
    ("S2R.CTAID.Y", 0x0000_0000_0000_2600, 0x0000_0000_0000_7919),
    ("S2R.SMID", 0x0000_0000_0000_4100, 0x0000_0000_0000_7919),
    ("ADD", 0x0000_0000_07ff_e0ff, 0x0000_0000_0000_7210),
    ("ADDI", 0x0000_0000_07ff_e0ff, 0x0000_0000_0000_7810),
    ("MOVI", 0x0000_0000_0000_0f00, 0x0000_0000_0000_7802),
    ("SHL3", 0x0000_0000_0780_18ff, 0x0000_0000_0000_7211),
    ("SHL6", 0x0000_0000_0780_30ff, 0x0000_0000_0000_7211),
    ("STL.64", 0x0000_0000_0010_0a00, 0x0000_0000_0000_7387),
    ("LDL.64", 0x0000_0000_0010_0a00, 0x0000_0000_0000_7983),
    ("R2UR", 0x0000_0000_000e_0000, 0x0000_0000_0000_72ca),
    ("LDGSTS", 0x0000_0000_0b92_1846, 0x0000_0000_080f_7fae),
    ("LDGDEPBAR", 0, 0x0000_0000_0000_79af),
    ("DEPBAR", 0, 0x0000_8000_0000_791a),
    ("BRA", 0x0000_0000_0380_0000, 0x0000_0000_0000_7947),
    ("CALL", 0x0000_0000_03c0_0000, 0x0000_0000_0000_7944),
    ("RET", 0x0000_0000_03c0_0000, 0x0000_0000_1400_7950),
    ("LDC.64", 0x0000_0000_0000_0a00, 0x0000_0000_ff00_7b82),
    ("UXOR", 0x0000_0000_0f8e_3c3f, 0x0000_0000_0000_7292),
    ("ULDC.64", 0x0000_0000_0000_0a00, 0x0000_0000_0000_7ab9),
    ("STS.64", 0x0000_0000_0000_0a00, 0x0000_0000_0000_7388),
    ("STG.64", 0x0000_0000_0c10_1b06, 0x0000_0009_0200_7986),
    ("UTMALDG", 0x0000_0000_0800_8000, 0x0000_0000_0000_75b4),
    ("UTMASTG", 0x0000_0000_0801_0000, 0x0000_0000_0000_73b5),
    ("UTMACMDFLUSH", 0, 0x0000_0000_0000_79b7),
    ("UTMACCTL.IV", 0x0000_0000_0800_0000, 0x0000_0000_0000_79b9),
    ("UTMACCTL.PF", 0x0000_0000_0804_0000, 0x0000_0000_0000_79b9),
    ("EXIT", 0x0000_0000_0380_0000, 0x0000_0000_0000_794d),
];

/// Assembles a line such as `@!P0 ADD R4 R2 R3 wait0 stall4`: destination, first and second source; `w` and `r` are
/// barriers, `#8` or `#-8` is a number, `>3` is a target, `<=1` the copies that a DEPBAR leaves in flight, `c528` an offset in constant bank 0.
pub(crate) fn assemble(index: usize, line: &str) -> u128 {
    let mut words = line.split_whitespace().peekable();
    let guard = words.next_if(|word| word.starts_with('@'));
    let name = words.next().unwrap();
    let (_, high, low) = TEMPLATES.iter().find(|(known, ..)| *known == name).unwrap();
    let mut word = u128::from(*high) << 64 | u128::from(*low);
    let mut set = |start: u32, width: u32, value: u64| {
        let mask = ((1_u128 << width) - 1) << start;
        word = word & !mask | u128::from(value) << start & mask;
    };
    if let Some(guard) = guard {
        set(12, 3, guard.trim_start_matches(['@', '!', 'P']).parse().unwrap());
        set(15, 1, u64::from(guard.starts_with("@!")));
    }
    for (start, width, value) in [(105, 4, 1), (110, 3, 7), (113, 3, 7), (116, 6, 0)] {
        set(start, width, value);
    }
    // Stores have no destination.
    let has_destination =
        !["STG", "STG.64", "STS.64", "STL.64", "UTMALDG", "UTMASTG", "UTMACCTL.IV", "UTMACCTL.PF"]
            .contains(&name);
    let positions = if has_destination { &[16, 24, 32][..] } else { &[24, 32] };
    let mut positions = positions.iter();
    for word in words {
        let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
        let value: u64 = digits.parse().unwrap();
        match &word[..word.len() - digits.len()] {
            "R" => set(*positions.next().unwrap(), 8, value),
            "w" => set(110, 3, value),
            "r" => set(113, 3, value),
            "stall" => set(105, 4, value),
            "wait" => digits.bytes().for_each(|digit| set(116 + u32::from(digit - b'0'), 1, 1)),
            "<=" => set(38, 6, value),
            "c" => set(38, 16, value),
            "#" => set(32, 32, value),
            "#-" => set(32, 32, u64::from(u32::try_from(value).unwrap().wrapping_neg())),
            ">" => {
                let displacement =
                    (i64::try_from(value).unwrap() - i64::try_from(index).unwrap() - 1) * 16 / 4;
                let bits = displacement.cast_unsigned();
                set(16, 8, bits & 0xff);
                set(34, 48, bits >> 8);
            }
            _ => panic!("what is `{word}`?"),
        }
    }
    word
}
