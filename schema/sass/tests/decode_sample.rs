//! The decoder against nvdisasm's output for stallmap's kernels: `testdata/decode/sm_*.txt`, which
//! `scripts/check-decoder --update-sample` makes.

#![expect(clippy::expect_used, reason = "a broken sample fails the test")]

use std::fs;
use std::path::Path;

use stallmap_sass::decode;
use stallmap_sass::instruction::SassInstruction;
use stallmap_sass::literal::Literal;
use stallmap_sass::register::{RegisterFile, Registers};
use stallmap_sass::word::{InstructionWord, Sm};

#[test]
fn every_instruction_of_the_sample_is_as_nvdisasm_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/decode");
    let mut compared = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some(sm) = name.strip_prefix("sm_").and_then(|number| number.parse().ok()) else { continue };
        for line in fs::read_to_string(&path).unwrap().lines().filter(|line| !line.starts_with('#')) {
            compared += 1;
            wrong
                .extend(difference(line, Sm(sm)).map(|difference| format!("{name}: {difference}\n  {line}")));
        }
    }
    assert!(compared > 3000, "only {compared} instructions in the sample");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Instructions whose name with modifiers is nvdisasm's, in percent at least. Rare ones have no rules, and the sample holds
/// one of every kind: of compiled code it is nearly all.
const NAMED_PERCENT: [(u32, usize); 2] = [(80, 75), (90, 74)];

#[test]
fn names_have_the_modifiers_that_nvdisasm_prints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/decode");
    for (sm, least) in NAMED_PERCENT {
        let text = fs::read_to_string(folder.join(format!("sm_{sm}.txt"))).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let wrong: Vec<String> = lines.iter().filter_map(|line| name_difference(line, Sm(sm))).collect();
        let equal = lines.len() - wrong.len();
        assert!(
            equal * 100 >= least * lines.len(),
            "sm_{sm}: {equal} of {}\n{}",
            lines.len(),
            wrong.join("\n")
        );
    }
}

/// The difference of a name with modifiers from the first word of a line's text.
fn name_difference(line: &str, sm: Sm) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let word = InstructionWord(u128::from_str_radix(fields[0], 16).expect("bits"));
    let theirs = fields.last()?.split(' ').find(|word| !word.starts_with('@'))?;
    let ours = decode(word, sm).full_name();
    (ours != theirs).then(|| format!("{ours}, not {theirs}"))
}

/// The decoder's difference from a line of the sample. `None` if there is none.
fn difference(line: &str, sm: Sm) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [word, name, guard, writes, reads, ..] = fields[..] else {
        return Some("not a line of a sample".to_owned());
    };
    let word = InstructionWord(u128::from_str_radix(word, 16).expect("bits"));
    let ours = decode(word, sm);
    let guard_of_ours = ours.guard.map_or_else(|| "-".to_owned(), |guard| guard.to_string());
    if let Some(difference) = literal_difference(&ours, fields.last().copied().unwrap_or_default()) {
        return Some(difference);
    }
    [
        ("name", ours.mnemonic.unwrap_or("-").to_owned(), name.to_owned()),
        ("guard", guard_of_ours, guard.to_owned()),
        ("writes", one_by_one(&ours.writes), writes.to_owned()),
        ("reads", one_by_one(&ours.reads), reads.to_owned()),
    ]
    .into_iter()
    .find(|(_, ours, theirs)| ours != theirs)
    .map(|(what, ours, theirs)| format!("{what} {ours}, not {theirs}"))
}

/// Registers as the sample lists them. nvdisasm prints no convergence registers.
fn one_by_one(set: &Registers) -> String {
    let names: Vec<String> = set
        .iter()
        .filter(|register| register.file != RegisterFile::Convergence)
        .map(|register| register.to_string())
        .collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}

/// The literal's difference from nvdisasm's text, which must have it among its operands.
fn literal_difference(ours: &SassInstruction, text: &str) -> Option<String> {
    let has_constant = text.contains("c[0x");
    match ours.literal() {
        Some(Literal::Constant { bank, offset }) => {
            let constant = format!("c[{bank:#x}][{offset:#x}]");
            let with_register = text
                .replace("][UR", "][R")
                .split_once(&format!("c[{bank:#x}][R"))
                .is_some_and(|(_, rest)| offset == 0 || rest.contains(&format!("{offset:#x}]")));
            (!text.contains(&constant) && !with_register).then(|| format!("constant {constant}"))
        }
        Some(Literal::Wide(value)) => {
            (!text.ends_with(&format!(" {value:#x}"))).then(|| format!("immediate {value:#x}"))
        }
        Some(Literal::Float(value)) => {
            let tokens = text.split([',', ' ']);
            let is_there = tokens.map(|token| token.trim_start_matches('+')).any(|token| {
                let is_close = |float: f64| {
                    float.to_bits() == value.to_bits() || (float - value).abs() <= value.abs() * 1e-6
                };
                token.parse().is_ok_and(is_close) || value.is_nan() && token.contains("NAN")
            });
            (!is_there).then(|| format!("float {value}"))
        }
        // Until a linker has filled it in.
        Some(Literal::Immediate(0)) if text.contains("32@") => None,
        Some(Literal::Immediate(value)) => {
            let operands = text.split_once(' ').map_or("", |(_, operands)| operands);
            let tokens: Vec<&str> = operands.split([',', ' ']).filter(|token| !token.is_empty()).collect();
            let is_there = tokens.iter().any(|token| means(token, value)) || is_pair(&tokens, value);
            (!is_there).then(|| format!("immediate {value:#x}"))
        }
        None => has_constant.then(|| "no constant".to_owned()),
    }
}

/// True if nvdisasm's token has these 32 bits, as an integer or a float.
fn means(token: &str, value: u32) -> bool {
    let (sign, digits) = token.strip_prefix('-').map_or((1, token), |digits| (-1, digits));
    if let Some(hex) = digits.strip_prefix("0x") {
        let number = i64::from_str_radix(hex, 16).map(|number| number * sign);
        return number.is_ok_and(|number| number.rem_euclid(1 << 32) == i64::from(value));
    }
    token.trim_start_matches('+').parse::<f32>().is_ok_and(|float| float.to_bits() == value)
}

/// True if two neighbouring tokens are the halves of these bits: two floats of 16 bits.
fn is_pair(tokens: &[&str], value: u32) -> bool {
    let half = |token: &str| token.trim_start_matches('+').parse::<f32>().ok();
    tokens.windows(2).any(|pair| {
        let [Some(first), Some(second)] = [half(pair[0]), half(pair[1])] else { return false };
        [(first, value >> 16), (second, value & 0xffff)]
            .into_iter()
            .all(|(float, bits)| f16_bits(float) == bits || float.to_bits() >> 16 == bits)
    })
}

/// The bits of a float of 16 bits, for those that are exact.
fn f16_bits(float: f32) -> u32 {
    let bits = float.to_bits();
    if bits << 1 == 0 {
        return bits >> 16;
    }
    if float.is_infinite() {
        return bits >> 16 & 0x8000 | 0x7c00;
    }
    let exponent = (bits >> 23 & 0xff).wrapping_sub(112);
    bits >> 16 & 0x8000 | exponent << 10 | bits >> 13 & 0x3ff
}
