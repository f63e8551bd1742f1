//! A kernel's code as text.

use std::io::{self, Write};

use super::chain::{ChainLink, ChainNode, chain};
use super::file::SourceTexts;
use super::fold::{InstructionFold, folds};
use super::group::InstructionGroup;
use super::listing::{KernelListing, ListingInstruction};
use super::words;
use stallmap_console::output::TableCanvas;
use stallmap_console::output::number::percent;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::{ShortenSide, printable, shorten, width};

/// Maximum of shown instructions per line.
const MAX_OF_A_LINE: usize = 6;
/// The column in which an instruction's text begins.
const TEXT_COLUMN: usize = 10;

/// Writes lines that fit a canvas.
pub(super) struct TerminalPage<'a> {
    out: &'a mut dyn Write,
    canvas: TableCanvas,
    listing: &'a KernelListing,
    files: &'a SourceTexts,
}

impl<'a> TerminalPage<'a> {
    /// A page of a listing.
    pub(super) fn new(
        out: &'a mut dyn Write,
        canvas: TableCanvas,
        listing: &'a KernelListing,
        files: &'a SourceTexts,
    ) -> Self {
        Self { out, canvas, listing, files }
    }

    /// Summary of the kernel over all its launches.
    pub(super) fn heading(&mut self) -> io::Result<()> {
        let kernel = &self.listing.kernel;
        self.line(TextRole::Heading, &format!("Kernel {}", kernel.name))?;
        if kernel.full_name != kernel.name {
            self.line(TextRole::Dim, &kernel.full_name)?;
        }
        self.line(TextRole::Dim, &words::facts(kernel))?;
        self.line(TextRole::Dim, &words::code(kernel))?;
        if let Some(reason) = &kernel.not_read_because {
            self.line(TextRole::Warning, &format!("! its code could not be decoded: {reason}"))?;
        }
        Ok(())
    }

    /// The hottest locations, each with its producers.
    pub(super) fn hottest(&mut self, groups: &[InstructionGroup<'_>], top: usize) -> io::Result<()> {
        if groups.is_empty() {
            return self.line(TextRole::Plain, "(no samples)");
        }
        for group in groups.iter().take(top) {
            self.line(TextRole::Plain, "")?;
            self.group(group)?;
        }
        let others = groups.get(top..).unwrap_or_default();
        if !others.is_empty() {
            let samples: f64 = others.iter().map(|group| group.samples).sum();
            let samples = words::samples(self.listing, samples);
            self.line(TextRole::Plain, "")?;
            let count = words::counted(others.len() as u64, "other location", "other locations");
            self.line(TextRole::Dim, &format!("({count}, {samples})"))?;
        }
        let meanings = words::meanings(self.listing);
        if !meanings.is_empty() {
            self.line(TextRole::Plain, "")?;
        }
        meanings.iter().try_for_each(|meaning| self.line(TextRole::Dim, meaning))
    }

    fn group(&mut self, group: &InstructionGroup<'_>) -> io::Result<()> {
        let counted = self.counted(group.samples, group.charged);
        if let Some((file, line)) = group.source {
            self.line(TextRole::Header, &format!("{}:{line}  {counted}", words::file_name(file)))?;
            if let Some(text) = self.files.line(file, line) {
                let text = format!("    {}", text.trim());
                self.line(TextRole::Keyword, &text)?;
            }
            if let Some(path) = group.instructions.first().and_then(|first| words::call_path(first)) {
                self.line(TextRole::Dim, &format!("    inlined: {path}"))?;
            }
        } else {
            self.line(TextRole::Header, &counted)?;
        }
        let folds = folds(self.listing, &group.instructions);
        for fold in folds.iter().take(MAX_OF_A_LINE) {
            self.fold(fold)?;
        }
        let others = folds.get(MAX_OF_A_LINE..).unwrap_or_default();
        if !others.is_empty() {
            let samples = words::samples(self.listing, others.iter().map(InstructionFold::samples).sum());
            let count: usize = others.iter().map(|fold| fold.all.len()).sum();
            let count = words::counted(count as u64, "other instruction", "other instructions");
            self.line(TextRole::Dim, &format!("  ({count}, {samples})"))?;
        }
        Ok(())
    }

    fn counted(&self, samples: f64, charged: f64) -> String {
        let mut counted = words::samples(self.listing, samples);
        if charged >= 0.05 {
            counted.extend([format!(", {} attributed to it", words::amount(charged))]);
        }
        counted
    }

    /// Equal instructions: the hottest, with the reasons of all.
    fn fold(&mut self, fold: &InstructionFold<'_>) -> io::Result<()> {
        let instruction = fold.first;
        let mut head =
            format!("  {}  {}{}", words::pc(instruction.pc), fold.times(), words::text(instruction));
        if let Some(function) = self.other_function(instruction) {
            head.extend([format!("  in {function}")]);
        }
        let reasons = words::reasons(self.listing, &fold.all);
        self.line(TextRole::Plain, &format!("{head}  {reasons}"))?;
        let indent = " ".repeat(TEXT_COLUMN);
        self.touched(instruction, &indent)?;
        let nodes = chain(self.listing, instruction.place());
        self.nodes(&nodes, &indent)
    }

    /// A callee is named: its pcs are its own.
    fn other_function<'b>(&self, instruction: &'b ListingInstruction) -> Option<&'b str> {
        let is_other = instruction.place().0 != self.listing.kernel.function_id;
        is_other.then(|| instruction.function.as_deref().unwrap_or("another function"))
    }

    fn nodes(&mut self, nodes: &[ChainNode], indent: &str) -> io::Result<()> {
        for (index, node) in nodes.iter().enumerate() {
            let is_last = index + 1 == nodes.len();
            let (branch, trunk) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.line(TextRole::Plain, &format!("{indent}{branch}{}", self.summary(node)))?;
            let indent = format!("{indent}{trunk}");
            if let Some((_, producer)) = node.place.and_then(|place| self.listing.find(place))
                && !node.is_loop
            {
                self.touched(producer, &indent)?;
            }
            self.nodes(&node.address, &indent)?;
        }
        Ok(())
    }

    fn summary(&self, node: &ChainNode) -> String {
        let producer = self.producer(node);
        let mark = if node.is_loop { " ↺" } else { "" };
        match &node.link {
            ChainLink::Waited { reason, share, note, .. } if node.place.is_none() => {
                format!("{} {reason}: {note}", percent(*share))
            }
            ChainLink::Waited { share, note, .. } => {
                format!("{} waits for {producer}{mark}  ({note})", percent(*share))
            }
            ChainLink::Address { through } => {
                format!("its operands through {} from {producer}{mark}", words::pc(through.1))
            }
        }
    }

    fn producer(&self, node: &ChainNode) -> String {
        let Some((_, producer)) = node.place.and_then(|place| self.listing.find(place)) else {
            return "an instruction that is not listed".to_owned();
        };
        let mut summary = format!("{} {}", words::pc(producer.pc), words::text(producer));
        if let Some(function) = self.other_function(producer) {
            summary.extend([format!(" in {function}")]);
        }
        if let Some(source) = words::source(producer) {
            summary.extend([format!(" at {source}")]);
        }
        summary
    }

    fn touched(&mut self, instruction: &ListingInstruction, indent: &str) -> io::Result<()> {
        let mut touched = words::touches(self.listing, instruction);
        if let (Some(last), Some(pattern)) = (touched.last_mut(), words::pattern(instruction)) {
            last.extend([format!("; {pattern}")]);
        }
        touched.iter().try_for_each(|touched| self.line(TextRole::Dim, &format!("{indent}{touched}")))
    }

    /// Every instruction in program order, with its source line above if that changes.
    pub(super) fn whole(&mut self) -> io::Result<()> {
        let listing = self.listing;
        let texts = listing.instructions.iter().map(|instruction| width(words::text(instruction)));
        let text = texts.max().unwrap_or(0).min(60);
        let mut above = (None, None);
        self.line(TextRole::Plain, "")?;
        self.line(
            TextRole::Header,
            &format!("{:>8}  {:>8}  {:>9}  {:>6}  instruction", "samples", "charged", "sectors", "pc"),
        )?;
        for instruction in &listing.instructions {
            let place = (Some(instruction.place().0), instruction.source());
            if place.0 != above.0 {
                let function = instruction.function.as_deref().unwrap_or("a function without a name");
                self.line(TextRole::Heading, function)?;
            }
            if place != above {
                self.source_above(instruction)?;
            }
            above = place;
            self.listed(instruction, text)?;
        }
        Ok(())
    }

    fn source_above(&mut self, instruction: &ListingInstruction) -> io::Result<()> {
        let Some((file, line)) = instruction.source() else { return Ok(()) };
        let text = self.files.line(file, line).map(str::trim).unwrap_or_default();
        let path = words::call_path(instruction).map(|path| format!("  ({path})")).unwrap_or_default();
        self.line(TextRole::Keyword, &format!("{:39}{}:{line}  {text}{path}", "", words::file_name(file)))
    }

    fn listed(&mut self, instruction: &ListingInstruction, text: usize) -> io::Result<()> {
        let samples =
            if instruction.samples > 0.0 { words::amount(instruction.samples) } else { String::new() };
        let is_charged = instruction.charged_samples >= 0.05;
        let charged = if is_charged { words::amount(instruction.charged_samples) } else { String::new() };
        let sectors = words::sectors(instruction).unwrap_or_default();
        let mut line =
            format!("{samples:>8}  {charged:>8}  {sectors:>9}  {:>6}  ", words::pc(instruction.pc));
        let shown = shorten(words::text(instruction), text, ShortenSide::End);
        line.extend([shown.as_str(), &" ".repeat(text.saturating_sub(width(&shown)))]);
        let reasons = words::reasons(self.listing, &[instruction]);
        if !reasons.is_empty() {
            line.extend([format!("  {reasons}")]);
        }
        let producers = self.listing.producers(instruction.place()).iter();
        let producers: Vec<String> = producers
            .filter_map(|producer| producer.producer().filter(|place| *place != instruction.place()))
            .map(|place| words::pc(place.1))
            .collect();
        if !producers.is_empty() {
            line.extend([format!("  ← {}", producers.join(", "))]);
        }
        let role = if instruction.samples > 0.0 { TextRole::Plain } else { TextRole::Dim };
        self.line(role, &line)
    }

    /// Everything is written.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// One line, no longer than the canvas is wide.
    pub(super) fn line(&mut self, role: TextRole, text: &str) -> io::Result<()> {
        let text = printable(&text.replace(['\n', '\t'], " "));
        let text = shorten(text.trim_end(), self.canvas.width.unwrap_or(usize::MAX), ShortenSide::End);
        writeln!(self.out, "{}", self.canvas.paint.text(role, &text))
    }
}
