//! Filters of launches: names on the command line become conditions of SQL, for every query that reads costs.
//!
//! ```text
//! --kernel, --line, --op, --phase ──> names that the capture has ──> condition ──┐
//! query of a command ──> its cost views, each as a part of the statement ──> the statement that `--sql` prints
//! ```
//!
//! A view in a `WITH` hides the library's view of that name. Shares stay parts of all samples.

use stallmap::lexer::{self, TokenKind};
use stallmap::library::queries::filter as queries;
use stallmap::session::Session;

use crate::kernel::{self, find};
use stallmap_console::answer::{asked, fresh_kept_rows};
use stallmap_console::args::filter::FilterArgs;
use stallmap_console::args::list::ListFormat;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY, USAGE};
use stallmap_console::names::nearest;
use stallmap_console::output;
use stallmap_console::output::number::{measured, percent};
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::printable;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

/// Base of shares, where samples were recorded.
pub const ALL_SAMPLES: &str = "all samples";
/// Names that a message lists.
const MAX_LISTED: usize = 8;

/// The views and tables with one row per launch that a query may read, and are filtered by launch.
const PER_LAUNCH: [&str; 4] = ["call_path_cost", "launch", "launch_traffic", "shared_wait"];

/// The cost views, and the columns that they group launches by.
const COSTS: [(&str, &str); 3] = [
    ("kernel_cost", "l.function_id, l.kernel"),
    ("line_cost", "l.line, l.forward_line"),
    ("op_cost", "l.op, l.phase"),
];

rows! {
    /// A line or op of the capture.
    struct FilterSite {
        kind: String,
        label: String,
    }

    /// The part that a filter chooses.
    struct ChosenLaunches {
        launches: f64,
        all_launches: f64,
        kernels: f64,
        all_kernels: f64,
        share: Option<f64>,
    }
}

/// Launches of some kernels, lines and ops.
#[derive(Clone, Debug)]
pub struct LaunchFilter {
    /// The condition on the columns of `launch_context`.
    launches: String,
    /// The condition on the columns of `tensor_cost`.
    costs: String,
    /// The condition on the columns of `finding`.
    findings: String,
    words: String,
    sentence: String,
    /// False for a capture without samples: shares of costs are those of the time.
    has_samples: bool,
}

impl LaunchFilter {
    /// The filter of a command line. None without one.
    ///
    /// # Errors
    /// Fails if the capture has no kernel, line or op of a name, with those that it has as a hint.
    pub async fn from_args(session: &Session, args: &FilterArgs) -> Outcome<Option<Self>> {
        if args.is_empty() {
            return Ok(None);
        }
        let (mut launches, mut findings, mut words) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(wanted) = &args.kernel {
            let found = find(&kernel::kernels(session).await?, wanted)?;
            let ids: Vec<String> = found.iter().map(|kernel| kernel.function_id.to_string()).collect();
            let named = found.iter().filter_map(|kernel| kernel.full_name.as_deref());
            launches.push(format!("function_id IN ({})", ids.join(", ")));
            findings.push(format!("kernel IN ({})", texts(named)));
            words.push(format!("--kernel {wanted}"));
        }
        let places =
            if args.line.is_some() || args.op.is_some() { places(session).await? } else { Vec::new() };
        if let Some(wanted) = &args.line {
            let found = named(&places, "line", wanted, is_line)?;
            let lines = texts(found.iter().copied());
            let gradients: Vec<String> = found.iter().map(|line| format!("{line} (grad)")).collect();
            let both = found.iter().copied().chain(gradients.iter().map(String::as_str));
            launches.push(format!("(line IN ({lines}) OR forward_line IN ({lines}))"));
            findings.push(format!("line IN ({})", texts(both)));
            words.push(format!("--line {wanted}"));
        }
        if let Some(wanted) = &args.op {
            let ops = texts(ops(&places, wanted)?.into_iter());
            launches.push(format!("op IN ({ops})"));
            findings.push(format!("op IN ({ops})"));
            words.push(format!("--op {wanted}"));
        }
        // The views have the same columns, but for the phase.
        let mut costs = launches.clone();
        if let Some(phase) = args.chosen_phase() {
            let is_chosen = format!("program_phase IN ({})", phase.words());
            launches.push(format!("kernel_id IN (SELECT kernel_id FROM launch_phase WHERE {is_chosen})"));
            costs.push(is_chosen);
            findings.push(phase.findings());
            words.push(format!("--phase {}", phase.name()));
        }
        let [launches, costs, findings] = [launches, costs, findings].map(|parts| parts.join(" AND "));
        let words = words.join(" ");
        let (sentence, has_samples) = sentence(session, &launches, &words).await?;
        Ok(Some(Self { launches, costs, findings, words, sentence, has_samples }))
    }

    /// The options, as they were typed.
    pub fn words(&self) -> &str {
        &self.words
    }

    /// A query with its cost views, findings and launches restricted to those of the filter.
    pub fn sql(&self, query: &str) -> String {
        let reads = |name: &str| {
            lexer::tokens(query)
                .any(|token| token.kind == TokenKind::Word && token.text.eq_ignore_ascii_case(name))
        };
        let mut parts = Vec::new();
        for (view, keys) in COSTS.iter().filter(|(view, _)| reads(view)) {
            parts.push((*view, queries::COSTS.body().replace("$keys", keys)));
        }
        for view in PER_LAUNCH.into_iter().filter(|view| reads(view)) {
            parts.push((view, queries::LAUNCHES.body().replace("$view", view)));
        }
        if reads("object_cost") || reads("tensor_node") {
            parts.push(("object_cost", queries::OBJECTS.body().replace("$filter", &self.costs)));
        }
        if reads("tensor_node") {
            parts.push(("tensor_node", queries::NODES.body()));
        }
        if reads("finding") {
            parts.push(("finding", queries::FINDINGS.body().replace("$filter", &self.findings)));
        }
        let parts = parts.into_iter().map(|(view, body)| {
            format!("{view} AS (\n{}\n)", body.trim_end().replace("$filter", &self.launches))
        });
        with(query, &parts.collect::<Vec<_>>().join(", "))
    }

    /// Prints the part that it chooses: for reading with the rows, for programs on standard error. `base` says what the
    /// shares of the rows are parts of.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    pub fn say(&self, format: ListFormat, base: &str) -> Outcome<()> {
        let base =
            if base == ALL_SAMPLES && !self.has_samples { "the GPU time of all launches" } else { base };
        let sentence = format!("{} Shares are parts of {base}.", self.sentence);
        if format.for_programs().is_some() {
            output::note(sentence);
            return Ok(());
        }
        let text = output::shorten::wrap(&sentence, output::page().width.unwrap_or(usize::MAX));
        output::print(&format!("{}\n\n", output::page().paint.text(TextRole::Heading, &text)))
    }
}

/// A statement with further parts of its `WITH`.
fn with(query: &str, parts: &str) -> String {
    if parts.is_empty() {
        return query.to_owned();
    }
    let comment: usize =
        query.split_inclusive('\n').take_while(|line| line.starts_with("--")).map(str::len).sum();
    let (comment, body) = query.split_at(comment);
    match body.strip_prefix("WITH ") {
        Some(rest) => format!("{comment}WITH {parts}, {rest}"),
        None => format!("{comment}WITH {parts}\n{body}"),
    }
}

async fn places(session: &Session) -> Outcome<Vec<FilterSite>> {
    let query = queries::PLACES;
    FilterSite::read(query.name, &asked(session, query, &query.sql(&[])).await?)
}

/// The part that a filter chooses, and true if the capture has samples.
async fn sentence(session: &Session, launches: &str, words: &str) -> Outcome<(String, bool)> {
    let query = queries::SHARE;
    let rows = fresh_kept_rows(session, &query.sql(&[]).replace("$filter", launches)).await?;
    let found = ChosenLaunches::read(query.name, &rows)?.into_iter().next();
    let found = found.ok_or_else(|| CommandFailure::message(QUERY, "the filter has no share"))?;
    let of = |some: f64, all: f64, noun: &str| format!("{} of {} {noun}", measured(some), measured(all));
    let share = found.share.map_or_else(String::new, |share| format!(", {} of all samples", percent(share)));
    let sentence = format!(
        "Only {}: {}, {}{share}.",
        printable(words),
        of(found.launches, found.all_launches, "launches"),
        of(found.kernels, found.all_kernels, "kernels"),
    );
    Ok((sentence, found.share.is_some()))
}

/// The labels of a kind that match.
fn named<'a>(
    places: &'a [FilterSite],
    kind: &str,
    wanted: &str,
    is_meant: impl Fn(&str, &str) -> bool,
) -> Outcome<Vec<&'a str>> {
    let all: Vec<&str> =
        places.iter().filter(|place| place.kind == kind).map(|place| place.label.as_str()).collect();
    let found: Vec<&str> = all.iter().copied().filter(|label| is_meant(label, wanted)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let hint = match nearest(wanted, all.iter().copied()) {
        Some(near) => format!("did you mean `{}`?", printable(near)),
        None if all.is_empty() => format!("the capture has no {kind}s: it was recorded without a framework"),
        None => {
            let first: Vec<String> = all.iter().take(MAX_LISTED).map(|label| printable(label)).collect();
            format!("the costliest are {}", first.join(", "))
        }
    };
    Err(CommandFailure::message(USAGE, format!("no launch has the {kind} `{wanted}`")).hint(hint))
}

/// The ops of a name, else of a name without namespace and overload, else of a part.
fn ops<'a>(places: &'a [FilterSite], wanted: &str) -> Outcome<Vec<&'a str>> {
    let whole = |label: &str, wanted: &str| label == wanted;
    let base = |label: &str, wanted: &str| {
        let name = label.rsplit("::").next().unwrap_or(label);
        name.split('.').next() == Some(wanted) || name == wanted
    };
    named(places, "op", wanted, whole)
        .or_else(|_| named(places, "op", wanted, base))
        .or_else(|_| named(places, "op", wanted, |label, wanted| label.contains(wanted)))
}

/// True if a label such as `train.py:12 forward` is at `train.py:12`, at `:12`, or in a longer or shorter path to it.
fn is_line(label: &str, wanted: &str) -> bool {
    let place = label.rsplit_once(' ').map_or(label, |(place, _)| place);
    if [label, place].contains(&wanted) {
        return true;
    }
    let (Some((file, line)), Some((wanted_file, wanted_line))) =
        (place.rsplit_once(':'), wanted.rsplit_once(':'))
    else {
        return false;
    };
    let ends =
        |path: &str, end: &str| path == end || path.strip_suffix(end).is_some_and(|head| head.ends_with('/'));
    line == wanted_line && (wanted_file.is_empty() || ends(file, wanted_file) || ends(wanted_file, file))
}

/// Texts as SQL writes them in a list.
fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(|text| format!("'{}'", text.replace('\'', "''"))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_number_or_place() {
        let label = "src/model.py:35 Attention.forward";
        for wanted in [":35", "model.py:35", "src/model.py:35", "/home/me/src/model.py:35", label] {
            assert!(is_line(label, wanted), "{wanted}");
        }
        for wanted in ["35", ":3", ":135", "del.py:35", "model.py:36", "other.py:35", "model.py"] {
            assert!(!is_line(label, wanted), "{wanted}");
        }
    }

    #[test]
    fn ops_are_found_by_their_name_before_a_part_of_it() {
        let labels = ["aten::add.Tensor", "aten::addmm.default", "aten::add_.Tensor"];
        let places = labels.map(|label| FilterSite { kind: "op".to_owned(), label: label.to_owned() });
        let found = |wanted: &str| ops(&places, wanted).unwrap_or_default();
        assert_eq!(found("add"), ["aten::add.Tensor"]);
        assert_eq!(found("addmm.default"), ["aten::addmm.default"]);
        assert_eq!(found("aten::add_.Tensor"), ["aten::add_.Tensor"]);
        assert_eq!(found("Tensor"), ["aten::add.Tensor", "aten::add_.Tensor"]);
        assert!(ops(&places, "conv").unwrap_err().to_string().contains("the costliest are aten::add.Tensor"));
    }

    #[test]
    fn texts_cannot_leave_their_quotes() {
        let list = texts(["a.py:1 f'); DROP", "b"].into_iter());
        assert_eq!(list, "'a.py:1 f''); DROP', 'b'");
        assert_eq!(lexer::tokens(&list).filter(|token| token.kind == TokenKind::Literal).count(), 2);
    }

    #[test]
    fn parts_stand_behind_the_comment_and_before_others() {
        assert_eq!(
            with("-- A.\nWITH b AS (x)\nSELECT", "a AS (y)"),
            "-- A.\nWITH a AS (y), b AS (x)\nSELECT"
        );
        assert_eq!(with("SELECT 1", "a AS (y)"), "WITH a AS (y)\nSELECT 1");
        assert_eq!(with("SELECT 1", ""), "SELECT 1");
    }
}
