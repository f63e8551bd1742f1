//! `stallmap diff --over`: two captures, chosen by their labels.

use stallmap_console::answer::fresh_rows;
use stallmap_console::args::diff::DiffArgs;
use stallmap_console::args::label::LabelCondition;
use stallmap_console::args::named::NamedCapture;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;
use stallmap_fleet::CaptureFleet;

use crate::trend::open::{open, say_skipped};

rows! {
    /// A capture of the folders, and the sides whose labels it has.
    #[derive(Clone, Debug)]
    struct LabelledCapture { capture: String, is_base: bool, is_head: bool }
}

/// The chosen captures, by their places in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChosenPair {
    base: usize,
    head: usize,
}

/// The options of a comparison with its captures in place of the folders.
///
/// # Errors
/// Fails if a label chooses no capture, or both choose the same.
pub fn choose(context: &CommandContext, args: DiffArgs) -> Outcome<DiffArgs> {
    let fleet = open(context, &args.over, &[])?;
    say_skipped(fleet.found, &fleet.skipped);
    if args.base.is_empty() {
        return Err(CommandFailure::message(USAGE, "no label chooses the capture to compare with")
            .hint("for example `--base branch=main`".to_owned()));
    }
    let all = newest_first(&fleet, &args)?;
    let chosen = chosen(&all, args.head.is_empty());
    let Some(ChosenPair { base, head }) = chosen else { return Err(nothing(&all, &args)) };
    let (base_name, head_name) = (&all[base].capture, &all[head].capture);
    output::note(format_args!("comparing `{head_name}` with `{base_name}`"));
    if base < head {
        let labels = words(&args.base);
        output::note(format_args!(
            "warning: no capture with {labels} is older than `{head_name}`: `{base_name}` is newer"
        ));
    }
    let capture = |name: &str| {
        let path = fleet.location(name).ok_or_else(|| nothing(&all, &args))?;
        Outcome::Ok(NamedCapture { name: None, path })
    };
    let captures = vec![capture(base_name)?, capture(head_name)?];
    Ok(DiffArgs { captures, over: Vec::new(), ..args })
}

/// The captures that can be read, the newest first.
fn newest_first(fleet: &CaptureFleet, args: &DiffArgs) -> Outcome<Vec<LabelledCapture>> {
    let sql = format!(
        "SELECT capture, coalesce({}, false) AS is_base, coalesce({}, false) AS is_head \
         FROM fleet WHERE skipped IS NULL ORDER BY time DESC NULLS LAST, capture DESC",
        LabelCondition::all_sql(&args.base),
        LabelCondition::all_sql(&args.head)
    );
    LabelledCapture::read("captures", &runtime()?.block_on(fresh_rows(&fleet.session, &sql))?)
}

/// The newest head, and the newest base that is older. Without one that is older, the newest other base. If the newest
/// capture is the only base and no label chooses a head, the next one is the head.
fn chosen(newest_first: &[LabelledCapture], is_any_head: bool) -> Option<ChosenPair> {
    let head = newest_first.iter().position(|capture| capture.is_head)?;
    let bases = || newest_first.iter().enumerate().filter(|(_, capture)| capture.is_base).map(|(at, _)| at);
    let older = bases().find(|at| *at > head);
    if let Some(base) = older.or_else(|| bases().find(|at| *at != head)) {
        return Some(ChosenPair { base, head });
    }
    let base = bases().next()?;
    (is_any_head && newest_first.len() > base + 1).then_some(ChosenPair { base, head: base + 1 })
}

/// Labels of which no capture is left.
fn nothing(all: &[LabelledCapture], args: &DiffArgs) -> CommandFailure {
    let has_base = all.iter().any(|capture| capture.is_base);
    let has_head = all.iter().any(|capture| capture.is_head);
    let what = match (has_base, has_head) {
        (false, _) => format!("no capture has {}", words(&args.base)),
        (true, false) => format!("no capture has {}", words(&args.head)),
        (true, true) => format!("no other capture has {}", words(&args.head)),
    };
    CommandFailure::message(USAGE, what)
        .hint("`stallmap sql --over FOLDER -c 'SELECT capture, labels FROM fleet'` lists labels".to_owned())
}

/// Labels in a sentence.
fn words(labels: &[LabelCondition]) -> String {
    let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
    if labels.is_empty() { "any label".to_owned() } else { labels.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Captures as letters, the newest first: b has the labels of the base, h those of the head, x both, o none.
    #[track_caller]
    fn check(captures: &str, is_any_head: bool, expected: Option<(usize, usize)>) {
        let capture = |letter: char| LabelledCapture {
            capture: letter.to_string(),
            is_base: "bx".contains(letter),
            is_head: is_any_head || "hx".contains(letter),
        };
        let all: Vec<LabelledCapture> = captures.chars().map(capture).collect();
        let expected = expected.map(|(base, head)| ChosenPair { base, head });
        assert_eq!(chosen(&all, is_any_head), expected, "{captures}");
    }

    #[test]
    fn the_base_is_older_than_the_head() {
        check("bbb", true, Some((1, 0)));
        check("obb", true, Some((1, 0)));
        check("bbhob", false, Some((4, 2)));
        check("xx", false, Some((1, 0)));
        // Nothing older has the labels.
        check("obho", false, Some((1, 2)));
        check("boo", true, Some((0, 1)));
        check("xo", false, None);
        check("ooo", true, None);
        check("hbb", false, Some((1, 0)));
    }
}
