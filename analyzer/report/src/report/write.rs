//! The report as text.

use std::io::{self, Write};

use stallmap::library::queries::report as queries;
use stallmap_console::answer::{SectionAnswer, nothing};
use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::number::{measured, percent};
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::width;
use stallmap_console::output::table::{TableCanvas, TextTable};
use stallmap_console::output::value::NumberFormat;
use stallmap_console::output::{self, written};
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

/// Columns that programs and the page identify rows by. The text report has names.
const IDENTITIES: &[&str] = &["function_id", "full_name", "label_source", "tensor_id"];

/// Columns of sentences, which have their words.
const PLACES: &[&str] = &["line", "code_function_id", "pc"];

/// Columns of tensors that the report without a choice of sections leaves to `--all`.
const BRIEFLY: &[&str] = &["low", "high", "op", "born_at"];

/// Columns that fold below a tensor on a narrow canvas, which the same report leaves out there.
const FOLDED: &[&str] = &["type"];
const NARROW: usize = 100;

rows! {
    /// A row of the coverage that marks itself as a flaw.
    #[derive(Clone, Debug)]
    struct CoverageFlaw { known: String, count: Option<f64>, of: Option<f64>, share: Option<f64> }
}

/// Lines of the report without a choice of sections, with the verdict. A section that exceeds them is only named.
const MAX_LINES: usize = 60;
/// The end of the last line, if it fits.
const SQL: &str = " (--sql prints the queries)";
/// Lines behind the sections.
const FOOTER_LINES: usize = 2;
/// Sections by what they add to the verdict.
const ORDER: &[&str] = &["findings", "losses", "coverage", "tensors", "ranks", "lines", "kernels", "ops"];

/// Writes the text report, the verdict first.
pub(super) fn text(
    out: &mut dyn Write,
    subject: &str,
    verdict: Option<&str>,
    is_brief: bool,
    answers: &[SectionAnswer],
) -> Outcome<()> {
    let verdict = verdict.unwrap_or_default();
    let mut sections = Vec::new();
    for answer in answers {
        sections.push((answer.section.name, section(subject, is_brief, answer)?));
    }
    let named = if is_brief { excess(&sections, verdict.lines().count()) } else { Vec::new() };
    sections.retain(|(name, _)| !named.contains(name));
    let blank = if verdict.is_empty() { "" } else { "\n" };
    let texts: Vec<&str> = sections.iter().map(|(_, text)| text.as_str()).collect();
    written(write!(out, "{verdict}{blank}{}", texts.join("\n")))?;
    written(footer(out, output::page(), &named).and_then(|()| out.flush()))
}

/// A section with its heading.
fn section(subject: &str, is_brief: bool, answer: &SectionAnswer) -> Outcome<String> {
    let canvas = output::page();
    let mut out = Vec::new();
    if is_brief && answer.section == queries::COVERAGE {
        return flaws(canvas, answer);
    }
    let is_narrow = canvas.width.is_some_and(|width| width < NARROW);
    written(heading(&mut out, canvas, subject, is_brief, answer))?;
    let hidden = match answer.section.name {
        "tensors" if is_brief => BRIEFLY,
        "findings" | "why" => PLACES,
        _ => &[],
    };
    let folded = if is_brief && is_narrow && answer.section.name == "tensors" { FOLDED } else { &[] };
    let table =
        TextTable::from_batches(&answer.rows, NumberFormat::Report).map_err(arrow_failure)?.without_samples();
    let table = table.without(if output::is_wide() { &[] } else { IDENTITIES }).without(hidden);
    let table = table.without(folded).prose("why", canvas).advice("sentence", "advice", canvas);
    if table.rows() > 0 {
        written(table.draw(&mut out, canvas))?;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Flaws of the coverage, a line each.
fn flaws(canvas: TableCanvas, answer: &SectionAnswer) -> Outcome<String> {
    let mut out = String::new();
    for CoverageFlaw { known, count, of, share } in CoverageFlaw::read(answer.section.name, &answer.rows)? {
        let numbers = match (count, of, share) {
            (Some(count), Some(of), Some(share)) => {
                format!(": {} of {}, {}", measured(count), measured(of), percent(share))
            }
            _ => String::new(),
        };
        out += &canvas.paint.text(TextRole::Warning, &format!("{known}{numbers}"));
        out.push('\n');
    }
    Ok(out)
}

/// The sections that do not fit below a verdict of some lines. The first one always does.
fn excess(sections: &[(&'static str, String)], verdict: usize) -> Vec<&'static str> {
    let mut left = MAX_LINES.saturating_sub(verdict + FOOTER_LINES);
    let mut named = Vec::new();
    let place = |name: &str| ORDER.iter().position(|other| *other == name).unwrap_or(ORDER.len());
    let mut ordered: Vec<&(&'static str, String)> = sections.iter().collect();
    ordered.sort_by_key(|(name, _)| place(name));
    for (at, (name, text)) in ordered.into_iter().enumerate() {
        let lines = text.lines().count() + 1;
        if at > 0 && lines > left {
            named.push(*name);
        } else {
            left = left.saturating_sub(lines);
        }
    }
    named
}

fn heading(
    out: &mut dyn Write,
    canvas: TableCanvas,
    subject: &str,
    is_brief: bool,
    answer: &SectionAnswer,
) -> io::Result<()> {
    let paint = canvas.paint;
    let is_empty = answer.count() == 0;
    if answer.section.name == "losses" {
        let (role, text) = if is_empty {
            (TextRole::Good, "Nothing was lost.".to_owned())
        } else {
            (TextRole::Warning, format!("! {}", answer.section.title()))
        };
        return writeln!(out, "{}", paint.text(role, &text));
    }
    let of = if answer.section.name == "coverage" && !subject.is_empty() {
        format!(" of {subject}")
    } else {
        String::new()
    };
    writeln!(out, "{}", paint.text(TextRole::Heading, &format!("{}{of}", answer.section.title())))?;
    for line in answer.section.doc().filter(|_| !is_brief) {
        writeln!(out, "{}", paint.text(TextRole::Dim, line))?;
    }
    if is_empty { write!(out, "{}", nothing(answer.section, answer.absence.as_deref())) } else { Ok(()) }
}

fn footer(out: &mut dyn Write, canvas: TableCanvas, named: &[&str]) -> io::Result<()> {
    let all = if named.is_empty() {
        "has all sections with more rows, and the coverage".to_owned()
    } else {
        format!("has more rows, and {}", and(named))
    };
    let short = format!("stallmap report FILE --all   {all}");
    let full = format!("{short}{SQL}");
    let fits = canvas.width.is_none_or(|columns| width(&full) <= columns);
    writeln!(out, "\n{}", canvas.paint.text(TextRole::Dim, if fits { &full } else { &short }))
}

/// A list of words.
fn and(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_that_say_least_give_way() {
        let section = |name, lines: usize| (name, "line\n".repeat(lines));
        let sections =
            [section("tensors", 15), section("kernels", 10), section("lines", 9), section("losses", 5)];
        assert_eq!(excess(&sections, 20), ["kernels"]);
        assert_eq!(excess(&sections, 0), Vec::<&str>::new());
        assert_eq!(excess(&sections, 100), ["tensors", "lines", "kernels"], "one section is always there");
        assert_eq!(and(&["kernels", "lines", "ops"]), "kernels, lines and ops");
    }
}
