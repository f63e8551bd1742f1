//! Growth of the analysis with the length of code, counted in steps, and the bound on both.
#![expect(clippy::unwrap_used, reason = "a test program that cannot be assembled is a broken test")]

use std::fmt::Write as _;

use stallmap_sass::cubin::{CodeSection, CubinFunction};
use stallmap_sass::slice::analysis::{SectionAnalysis, analyze};
use stallmap_sass::slice::work::TooMuchWork;

mod program;

use program::{SM, assemble};

fn analyzed(lines: &[String], functions: &[usize]) -> Result<SectionAnalysis, TooMuchWork> {
    let code: Vec<u8> =
        lines.iter().enumerate().flat_map(|(index, line)| assemble(index, line).to_le_bytes()).collect();
    let function = |first: &usize| CubinFunction {
        offset: u32::try_from(first * 16).unwrap(),
        name: format!("function_{first}"),
        ..CubinFunction::default()
    };
    let functions = functions.iter().map(function).collect();
    analyze(&code, &CodeSection { functions, ..CodeSection::default() }, SM)
}

/// A load, its use a few instructions behind, a store. Registers and barriers differ from part to part.
fn part(lines: &mut Vec<String>, number: usize) {
    let (register, barrier) = (8 + number % 100, number % 6);
    lines.push(format!("LDG R{register} R4 w{barrier}"));
    lines.extend((0..3).map(|index| format!("ADD R{} R2 R3 stall4", 120 + index)));
    lines.push(format!("ADD R7 R{register} R{register} wait{barrier}"));
    lines.push(format!("STG R4 R7 r{barrier}"));
}

/// Programs of about so many instructions, and their functions, by the way in which code can be long.
fn program(kind: &str, length: usize) -> (Vec<String>, Vec<usize>) {
    let (mut lines, mut functions, mut calls) = (Vec::new(), vec![0], Vec::new());
    for number in 0.. {
        let first = lines.len();
        if first >= length {
            break;
        }
        part(&mut lines, number);
        let next = lines.len() + 1;
        match kind {
            "skips" => lines.insert(first + 1, format!("@P0 BRA >{}", first + 4)),
            "loops" => lines.push(format!("@P0 BRA >{first}")),
            "nests" if number % 8 == 7 => {
                let tops = (0..8).map(|depth| format!("@P0 BRA >{}", first - depth * 6));
                lines.extend(tops);
            }
            "straight" | "nests" => {}
            "ends" => lines.insert(first + 1, "@P0 EXIT".to_owned()),
            "calls" => {
                calls.push((next - 1, number % 8));
                lines.push(String::new());
            }
            _ => panic!("{kind} is no kind of program"),
        }
    }
    lines.push("EXIT".to_owned());
    let first_callee = lines.len();
    for number in 0..8 {
        functions.push(lines.len());
        lines.extend((0..6).map(|barrier| format!("ADD R{number} R2 R3 wait{barrier}")));
        lines.push("RET".to_owned());
    }
    for (index, callee) in calls {
        lines[index] = format!("CALL >{}", first_callee + 7 * callee);
    }
    (lines, functions)
}

#[test]
fn the_steps_of_long_code_grow_with_its_length() {
    let mut text = String::new();
    for kind in ["straight", "skips", "loops", "nests", "ends", "calls"] {
        let steps = |length: usize| {
            let (lines, functions) = program(kind, length);
            let found = analyzed(&lines, &functions).unwrap();
            assert!(found.producers.len() >= length / 8, "{kind}: {} producers", found.producers.len());
            found.steps as f64 / lines.len() as f64
        };
        let (short, long) = (steps(2_000), steps(32_000));
        writeln!(text, "{kind}: {short:.1} steps an instruction, {long:.1} in code that is 16 times longer")
            .unwrap();
        assert!(long < 1.2 * short, "{text}");
    }
}

/// Loads that nothing waits for: a set of them at each block would grow with the square.
#[test]
fn results_that_nothing_waits_for_cost_nothing() {
    let lines: Vec<String> = (0..20_000)
        .map(|index| match index % 4 {
            0 => format!("LDG R{} R4 w{}", 8 + index % 100, index / 4 % 6),
            1 => format!("@P0 BRA >{}", index + 3),
            _ => "ADD R6 R2 R3".to_owned(),
        })
        .collect();
    let found = analyzed(&lines, &[0]).unwrap();
    assert!(found.steps < 10 * lines.len() as u64, "{} steps", found.steps);
    assert_eq!(found.producers, []);
}

/// Each end of some lanes waits for each load before it.
#[test]
fn answers_that_grow_with_the_square_are_refused() {
    let lines: Vec<String> = (0..20_000)
        .map(|index| match index % 2 {
            0 => format!("LDG R{} R4 w{}", 8 + index % 100, index / 2 % 6),
            _ => "@P0 EXIT".to_owned(),
        })
        .collect();
    let steps = (1 << 23) + 160 * 20_000;
    assert_eq!(analyzed(&lines, &[0]).unwrap_err(), TooMuchWork { steps });
    let few = analyzed(&lines[..200], &[0]).unwrap();
    assert!(few.producers.len() > 100 * 100 / 2, "{} producers", few.producers.len());
}

/// UIADD3 UR6, UR6, 0x100 and a UTMALDG behind them, whose tensor map is UR6: the sum has more parts than are followed.
#[test]
fn a_long_sum_is_unknown() {
    let sum: u128 = 0x000f_e200_0ff1_e03f_0000_0100_0606_7890;
    let copy: u128 = 0x0001_e400_0800_8804_0000_0008_0600_73b4;
    let mut words = vec![sum; 5_000];
    words.extend([copy; 50]);
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let found = analyze(&code, &CodeSection::default(), SM).unwrap();
    assert_eq!(found.tensor_maps, []);
    assert!(found.steps > 2 * 1_024, "{} steps: the sum is not followed", found.steps);
}
