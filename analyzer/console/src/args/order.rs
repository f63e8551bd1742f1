//! The order of arguments: the capture and the word or number with it can swap.

use std::ffi::OsString;

use clap::ValueEnum as _;

use super::top::TopRanking;

/// The arguments as declared: `top tensors FILE` of `top FILE tensors`, `why FILE 2` of `why 2 FILE`.
pub fn in_order(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let text = |at: usize| arguments.get(at).and_then(|argument| argument.to_str());
    let is_swapped = match (text(1), text(2), text(3)) {
        (Some("top"), Some(first), Some(second)) => {
            !first.starts_with('-') && !is_ranked(first) && is_ranked(second)
        }
        (Some("why"), Some(first), Some(second)) => {
            is_number(first) && !is_number(second) && !second.starts_with('-')
        }
        _ => false,
    };
    if is_swapped {
        arguments.swap(2, 3);
    }
    arguments
}

fn is_ranked(text: &str) -> bool {
    TopRanking::from_str(text, true).is_ok()
}

fn is_number(text: &str) -> bool {
    text.parse::<u32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: &str) {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(in_order(words(typed)), words(expected));
    }

    #[test]
    fn a_capture_and_a_word_can_swap() {
        check("stallmap top a.stallmap tensors -n 2", "stallmap top tensors a.stallmap -n 2");
        check("stallmap top tensors a.stallmap", "stallmap top tensors a.stallmap");
        check("stallmap top tensors kernels", "stallmap top tensors kernels");
        check("stallmap why 2 a.stallmap", "stallmap why a.stallmap 2");
        check("stallmap why a.stallmap 2", "stallmap why a.stallmap 2");
        check("stallmap a.stallmap", "stallmap a.stallmap");
    }
}
