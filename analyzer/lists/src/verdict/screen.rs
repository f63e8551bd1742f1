//! The verdict as one screen of text.

use std::collections::BTreeSet;
use std::path::Path;

use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::{ShortenSide, printable, shorten, width, wrap};
use stallmap_console::output::{self, TableCanvas};

use super::VerdictRows;
use super::facts::{FindingRow, LossFacts};
use super::shares::{SampleShare, ShareKind, is_generated, place};

/// Most lines of the screen.
const MAX_LINES: usize = 24;
/// Columns of a page that is not for a terminal.
const PAGE: usize = 120;
/// Between columns.
const GAP: usize = 2;
/// Columns of a percentage.
const PERCENT: usize = 5;
/// Less room than this shows nothing of a type.
const LEAST_DETAIL: usize = 8;
/// A loss is not cut below this.
const LEAST_LOSS: usize = 24;
/// A kernel's name has no more lines than this.
const MAX_NAME_LINES: usize = 2;
/// Before the text of a finding.
const INDENT: &str = "   ";
/// Parts of a cell, from one eighth to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// The screen.
pub(super) fn screen(verdict: &VerdictRows, capture: &Path, canvas: TableCanvas) -> String {
    VerdictScreen { verdict, canvas, columns: canvas.width.unwrap_or(PAGE), is_whole: false }
        .text(capture, MAX_LINES)
}

/// The same with every finding of the verdict and each loss in full, longer than a screen.
pub(super) fn whole(verdict: &VerdictRows, capture: &Path, canvas: TableCanvas) -> String {
    VerdictScreen { verdict, canvas, columns: canvas.width.unwrap_or(PAGE), is_whole: true }
        .text(capture, usize::MAX)
}

struct VerdictScreen<'a> {
    verdict: &'a VerdictRows,
    canvas: TableCanvas,
    columns: usize,
    /// True if it may be longer than a screen.
    is_whole: bool,
}

impl VerdictScreen<'_> {
    fn text(&self, capture: &Path, most_lines: usize) -> String {
        let mut lines = self.head();
        if !self.verdict.shares.is_empty() {
            lines.push(String::new());
            lines.extend(self.bars());
        }
        let room = most_lines.saturating_sub(lines.len() + 2);
        let (found, shown) = self.findings(room);
        if !found.is_empty() {
            lines.push(String::new());
            lines.extend(found);
        }
        lines.push(self.next(capture, shown));
        lines.join("\n") + "\n"
    }

    fn paint(&self, role: TextRole, text: &str) -> String {
        self.canvas.paint.text(role, &printable(text))
    }

    /// The run, its completeness, and the verdict.
    fn head(&self) -> Vec<String> {
        let subject = self.joined(&self.verdict.subject());
        let mut lines = vec![self.paint(TextRole::Heading, &subject)];
        if self.is_whole {
            lines.extend(self.trust_in_full());
        } else {
            lines.push(self.trust());
        }
        lines.push(String::new());
        let sentence = wrapped(&self.verdict.sentence, self.columns);
        lines.extend(sentence.lines().map(|line| self.canvas.paint.text(TextRole::Heading, line)));
        if let Some(outside) = self.verdict.outside_steps() {
            let outside = wrapped(&outside, self.columns);
            lines.extend(outside.lines().map(|line| self.canvas.paint.text(TextRole::Dim, line)));
        }
        lines
    }

    /// Pieces with dots between them, without the last ones if they do not fit.
    fn joined(&self, pieces: &[String]) -> String {
        let text = pieces.join(" · ");
        if width(&text) <= self.columns || pieces.len() <= 1 {
            return shorten(&text, self.columns, ShortenSide::End);
        }
        // The time's explanation goes first, then the GPU's maker and memory, then numbers in brackets, then the last
        // pieces. A time never loses that it is a partial one.
        let short: Vec<String> = pieces.iter().map(|piece| piece.replace(" of GPU time", "")).collect();
        let brief = |piece: &String| match piece.strip_prefix("NVIDIA ") {
            Some(gpu) => gpu.split(' ').next().unwrap_or(gpu).to_owned(),
            None => piece.clone(),
        };
        let brief: Vec<String> = short.iter().map(brief).collect();
        let bare = brief.iter().map(|piece| bare(piece)).collect();
        let mut texts = vec![short, brief, bare];
        let last = texts.last().cloned().unwrap_or_default();
        texts.extend((1..last.len()).rev().filter_map(|count| last.get(..count)).map(<[String]>::to_vec));
        let texts: Vec<String> = texts.iter().map(|pieces| pieces.join(" · ")).collect();
        let fitting = texts.iter().find(|text| width(text) <= self.columns).or(texts.last());
        shorten(fitting.map_or("", String::as_str), self.columns, ShortenSide::End)
    }

    /// Losses and coverage in one line.
    fn trust(&self) -> String {
        let pieces = self.verdict.trust();
        let is_lossy = pieces.iter().any(|(is_loss, _)| *is_loss);
        let mut text: Vec<String> = pieces.into_iter().map(|(_, text)| text).collect();
        // The first loss gives way to the pieces behind it that fit.
        loop {
            let others: usize = text.iter().skip(1).map(|piece| width(piece) + 3).sum();
            let room = self.columns.saturating_sub(others + GAP);
            let Some(first) = text.first_mut() else { break };
            if room >= width(first).min(LEAST_LOSS) || others == 0 {
                *first = fit(first, room);
                break;
            }
            text.pop();
        }
        let line = format!("{}{}", if is_lossy { "! " } else { "" }, text.join(" · "));
        let role = if is_lossy { TextRole::Warning } else { TextRole::Good };
        self.paint(role, &fit(&line, self.columns))
    }

    /// Losses and coverage, a line each.
    fn trust_in_full(&self) -> Vec<String> {
        // Instruments can lose the same.
        let losses: BTreeSet<String> = self.verdict.losses.iter().map(LossFacts::text).collect();
        let losses = losses.into_iter().map(|text| (true, text));
        // The first loss and the number of further ones are there already, or that there are none.
        let lost = self.verdict.losses.iter().filter(|loss| !loss.is_wanted()).count().clamp(1, 2);
        let known = if self.verdict.losses.is_empty() { 0 } else { lost };
        let others = self.verdict.trust().into_iter().skip(known);
        let paint = |(is_loss, text): (bool, String)| {
            let (mark, role) = if is_loss { ("! ", TextRole::Warning) } else { ("", TextRole::Good) };
            let text = wrap(&format!("{mark}{}", printable(&text)), self.columns);
            text.lines().map(|line| self.canvas.paint.text(role, line)).collect::<Vec<_>>()
        };
        losses.chain(others).flat_map(paint).collect()
    }

    /// One bar per share, all of one scale: the full width is all samples.
    fn bars(&self) -> Vec<String> {
        let full = self.columns / 2;
        let longest = self.verdict.shares.iter().map(|share| width(&bar(share, full))).max().unwrap_or(0);
        let room = self.columns.saturating_sub(PERCENT + longest + 2 * GAP + 1);
        let label = |share: &SampleShare| width(&share.label);
        let labels =
            self.verdict.shares.iter().filter(|share| share.kind == ShareKind::Tensor).map(label).max();
        let mut lines = Vec::new();
        for share in &self.verdict.shares {
            let texts = texts(share, &self.verdict.run.script(), labels.unwrap_or(0), room);
            let role = if matches!(share.kind, ShareKind::Tensor | ShareKind::Line | ShareKind::Module) {
                TextRole::Plain
            } else {
                TextRole::Dim
            };
            let bar = bar(share, full);
            let space = " ".repeat(longest.saturating_sub(width(&bar)));
            let mut first = format!("{:>PERCENT$}  {bar}{space}  ", share.percent());
            for text in texts {
                lines.push(self.paint(role, format!("{first}{text}").trim_end()));
                first = " ".repeat(width(&first));
            }
        }
        lines
    }

    /// The findings that fit, and their number.
    fn findings(&self, room: usize) -> (Vec<String>, u64) {
        let (mut lines, mut shown) = (Vec::new(), 0);
        for finding in &self.verdict.findings {
            let text = self.finding(finding);
            if lines.len() + text.len() > room {
                break;
            }
            lines.extend(text);
            shown += finding.alike;
        }
        (lines, shown)
    }

    /// Kind, bound, place and the line's text, then the fact, then the advice.
    fn finding(&self, finding: &FindingRow) -> Vec<String> {
        let head = format!("{:>2} {:<11}  {}", finding.number, finding.bound(), finding.kind());
        let place = finding.line.as_deref().filter(|line| !is_generated(line)).map(place).unwrap_or_default();
        let text = finding.text.as_deref().map(printable).unwrap_or_default();
        let head = format!("{head:<39}  {place}  {text}");
        let mut lines = vec![
            self.paint(TextRole::Header, shorten(head.trim_end(), self.columns, ShortenSide::End).as_str()),
        ];
        let room = self.columns.saturating_sub(INDENT.len());
        let also = finding.also.as_ref().map(|also| format!(" (also {})", also.replace('_', " ")));
        let fact = format!("{}{}", finding.fact.as_deref().unwrap_or_default(), also.unwrap_or_default());
        let fact = wrapped(&fact, room);
        lines.extend(fact.lines().map(|line| format!("{INDENT}{line}")));
        let advice = finding.advice.as_deref().unwrap_or_default();
        if self.is_whole {
            let advice = wrap(&format!("→ {}", printable(advice)), room.saturating_sub(GAP));
            let indented =
                |(at, line): (usize, &str)| format!("{INDENT}{}{line}", if at > 0 { "  " } else { "" });
            lines.extend(advice.lines().enumerate().map(indented));
            return lines;
        }
        let advice = format!("→ {}", first_sentence(advice));
        lines.push(format!("{INDENT}{}", self.paint(TextRole::Plain, &fit(&advice, room))));
        lines
    }

    /// Commands to type next.
    fn next(&self, capture: &Path, shown: u64) -> String {
        let found = self.verdict.findings.first().map_or(0, |finding| finding.found);
        let more = match found.saturating_sub(shown) {
            0 => String::new(),
            more => format!("{more} more · "),
        };
        let first = self.verdict.findings.first().map_or(1, |finding| finding.number);
        let why =
            |file: &str| if shown > 0 { format!("stallmap why {file} {first} · ") } else { String::new() };
        let line = |file: &str| format!(" {more}{}stallmap report {file} · stallmap open {file}", why(file));
        let full = line(&output::path(capture));
        let text = if width(&full) <= self.columns { full } else { line("FILE") };
        self.paint(TextRole::Dim, &shorten(&text, self.columns, ShortenSide::End))
    }
}

/// A piece of the title without its brackets. Those of a time say in words that it was not measured whole.
fn bare(piece: &str) -> String {
    match piece.split_once(" (") {
        Some((_, "estimated)")) | None => piece.to_owned(),
        Some((time, source)) if source.ends_with(" measured)") => format!("{time} (partly measured)"),
        Some((text, _)) => text.to_owned(),
    }
}

/// A share's label, type and place in one line. A label that is too long has several lines.
fn texts(share: &SampleShare, script: &str, labels: usize, room: usize) -> Vec<String> {
    let is_line = share.kind == ShareKind::Line && width(&place(&share.label)) <= room;
    if (is_line || share.kind == ShareKind::Module) && !share.detail.is_empty() {
        let text = format!("{}  {}", place(&share.label), printable(&share.detail));
        return vec![shorten(&text, room, ShortenSide::End)];
    }
    if share.kind == ShareKind::Line {
        // Functions of lines can be cut, kernels cannot.
        let is_kernel = place(&share.label) == share.label && width(&share.label) > room;
        if is_kernel {
            let line = shorten(&printable(&share.detail), room / 2, ShortenSide::Start);
            let space = if line.is_empty() { 0 } else { width(&line) + GAP };
            let name = shorten(&share.label, room * MAX_NAME_LINES - space, ShortenSide::Middle);
            let last = if line.is_empty() { String::new() } else { format!("  {line}") };
            return broken(&(name + &last), room);
        }
        let line = if width(&share.label) > room { place(&share.label) } else { share.label.clone() };
        return vec![shorten(&line, room, ShortenSide::Start)];
    }
    if share.kind != ShareKind::Tensor {
        return vec![fit(&share.label, room)];
    }
    let place = share.place.strip_prefix(script).filter(|line| line.starts_with(':')).unwrap_or(&share.place);
    let left = room.saturating_sub(labels + GAP);
    let place = shorten(place, left, ShortenSide::Start);
    let detail = left.saturating_sub(width(&place) + GAP);
    if left < LEAST_DETAIL {
        return broken(&share.label, room);
    }
    let detail =
        if detail < LEAST_DETAIL { String::new() } else { shorten(&share.detail, detail, ShortenSide::End) };
    let space = room.saturating_sub(labels + GAP + width(&detail) + width(&place));
    let label = format!("{}{}", share.label, " ".repeat(labels.saturating_sub(width(&share.label))));
    vec![format!("{label}  {detail}{}{place}", " ".repeat(space))]
}

/// A text in lines. The name of a kernel may be wider than they are.
fn wrapped(text: &str, columns: usize) -> String {
    let text = printable(text);
    let words = text.split(' ').map(|word| shorten(word, columns, ShortenSide::Middle));
    wrap(&words.collect::<Vec<_>>().join(" "), columns)
}

/// A name in lines of a width: names are not cut.
fn broken(name: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for char in name.chars() {
        if width(&line) >= room.max(1) {
            lines.push(std::mem::take(&mut line));
        }
        line.push(char);
    }
    lines.push(line);
    lines
}

/// A bar. `full` cells are all samples.
fn bar(share: &SampleShare, full: usize) -> String {
    // Eighths of a cell. Nothing is below 0 or above all samples.
    let eighths =
        (0..=full * 8).rev().find(|&eighths| eighths as f64 <= share.part * (full * 8) as f64).unwrap_or(0);
    let cell = if share.kind == ShareKind::Other { '░' } else { '█' };
    let mut bar = cell.to_string().repeat(eighths / 8);
    bar.extend((eighths % 8).checked_sub(1).and_then(|rest| EIGHTHS.get(rest)));
    if bar.is_empty() && share.part > 0.0 { "▏".to_owned() } else { bar }
}

/// A text in some columns: cut after a comma, else between words.
fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let cut = shorten(text, room.saturating_sub(1), ShortenSide::End);
    let cut = cut.trim_end_matches('…');
    let clause = cut.rfind([',', ':', '(']).filter(|at| *at > cut.len() / 2);
    let end = clause.or_else(|| cut.rfind(' ')).unwrap_or(cut.len());
    format!("{} …", cut.get(..end).unwrap_or(cut).trim_end())
}

fn first_sentence(text: &str) -> &str {
    let end = text.find(". ").map_or(text.len(), |at| at + 1);
    text.get(..end).unwrap_or(text).trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_broken_and_not_cut() {
        assert_eq!(broken("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(broken("", 3), [""]);
        assert_eq!(broken("ab", 0), ["a", "b"]);
    }

    #[test]
    fn a_long_kernel_is_with_its_line() {
        let share = SampleShare {
            kind: ShareKind::Line,
            percent: 69,
            part: 0.69,
            label: format!("sm90_{}_cublas", "x".repeat(100)),
            detail: "model.py:17".to_owned(),
            place: String::new(),
        };
        let lines = texts(&share, "", 0, 40);
        assert!(lines.len() == 2 && lines[1].ends_with("_cublas  model.py:17"), "{lines:?}");
        assert!(lines.iter().all(|line| width(line) <= 40), "{lines:?}");
        let sentence = wrapped(&format!("most of it before {}.", share.label), 40);
        assert!(sentence.lines().all(|line| width(line) <= 40), "{sentence}");
    }

    #[test]
    fn texts_are_cut_between_words() {
        assert_eq!(fit("not memory: waits, and more", 24), "not memory: waits …");
        assert_eq!(fit("one two three", 10), "one two …");
        assert_eq!(fit("short", 10), "short");
    }

    #[test]
    fn advice_is_its_first_sentence() {
        assert_eq!(first_sentence("Fuse it. Or not."), "Fuse it");
        assert_eq!(first_sentence("Use `.contiguous()` once"), "Use `.contiguous()` once");
    }
}
