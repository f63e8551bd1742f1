//! The forest as text.

use super::dot::short_op;
use super::prune::ForestPicture;
use super::tree::{ForestEdge, RelationKind};
use stallmap_console::output::number;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::{ShortenSide, printable, shorten, width};
use stallmap_console::output::table::TableCanvas;

/// Maximum of named sources of a tensor.
const MAX_SOURCES: usize = 3;

/// Draws the forest as lines.
pub(super) fn draw(picture: &ForestPicture, canvas: TableCanvas) -> String {
    let mut page =
        ForestText { picture, canvas, text: String::new(), room: canvas.width.unwrap_or(usize::MAX) };
    page.header();
    for root in (0..picture.nodes.len()).filter(|&node| picture.nodes[node].base.is_none()) {
        page.node(root, "", "");
    }
    page.remainders();
    page.text
}

struct ForestText<'a> {
    picture: &'a ForestPicture,
    canvas: TableCanvas,
    text: String,
    room: usize,
}

impl ForestText<'_> {
    fn header(&mut self) {
        let head = format!("{:>7}  {:>9}  {:>9}  tensor", "share", "samples", "self");
        self.text += &(self.canvas.paint.text(TextRole::Header, &head) + "\n");
        let rule = format!("{0}  {1}  {1}  ──────", "─".repeat(7), "─".repeat(9));
        self.text += &(self.canvas.paint.text(TextRole::Dim, &rule) + "\n");
    }

    /// A tensor, its source, and its views: `lead` precedes it, `below` precedes the lines below it.
    fn node(&mut self, index: usize, lead: &str, below: &str) {
        let node = &self.picture.nodes[index];
        let own = if node.samples > 0.0 { number::measured(node.samples) } else { "-".to_owned() };
        let role = if self.picture.blamed[index] { TextRole::Error } else { TextRole::Plain };
        self.line(Some(node.tree_samples), &own, lead, &self.title(index), role);
        let views: Vec<usize> = (index + 1..self.picture.nodes.len())
            .filter(|&view| self.picture.nodes[view].base == Some(index))
            .collect();
        let hidden = self.picture.hidden_views[index];
        let is_said = hidden.1 > 0.0;
        let follows = if views.is_empty() && !is_said { "   " } else { "│  " };
        for summary in self.summary(index) {
            self.line(None, "", &format!("{below}{follows}"), &summary, TextRole::Dim);
        }
        for (rank, &view) in views.iter().enumerate() {
            let is_last = rank + 1 == views.len() && !is_said;
            let (branch, next) = if is_last { ("└╌ ", "   ") } else { ("├╌ ", "│  ") };
            self.node(view, &format!("{below}{branch}"), &format!("{below}{next}"));
        }
        if is_said {
            let title = format!("({})", other_views(hidden.0));
            self.line(Some(hidden.1), "-", &format!("{below}└╌ "), &title, TextRole::Dim);
        }
    }

    fn title(&self, index: usize) -> String {
        let node = &self.picture.nodes[index];
        let mut title = node.tensor.name.clone();
        if node.count > 1 {
            title.extend([format!(" ×{}", node.count)]);
        }
        if let Some(shape) = &node.tensor.shape {
            title.extend([" · ", shape]);
        }
        if node.base.is_some() && node.tensor.is_contiguous != Some(true) {
            title += " · not contiguous";
        }
        let (views, samples) = self.picture.hidden_views[index];
        if views > 0 && samples <= 0.0 {
            title.extend([format!(" … {}", other_views(views))]);
        }
        title
    }

    /// Lines below a tensor: its allocation site, its source, writes into it, and the line that waited for it.
    fn summary(&self, index: usize) -> Vec<String> {
        let node = &self.picture.nodes[index];
        let mut summary = Vec::new();
        if let Some(born_line) = &node.tensor.born_at {
            summary.push(format!("allocated at {born_line}"));
        }
        if let (Some(line), true) = (&node.tensor.stalled_at, node.samples > 0.0) {
            summary.push(format!("waited at {line}"));
        }
        let edges = |kind: RelationKind| -> Vec<&ForestEdge> {
            self.picture.edges.iter().filter(|edge| edge.target == index && edge.kind == kind).collect()
        };
        for (kind, sign) in [
            (RelationKind::Copy, "← copy of"),
            (RelationKind::Op, "← created from"),
            (RelationKind::InPlace, "✎ written"),
        ] {
            let edges = edges(kind);
            if let Some(first) = edges.first() {
                summary.push(format!("{sign} {}", self.sources(&edges, first)));
            }
        }
        summary
    }

    fn sources(&self, edges: &[&ForestEdge], first: &ForestEdge) -> String {
        let op = first.op.as_deref().map(short_op).unwrap_or_default();
        let mut names: Vec<&str> = Vec::new();
        for edge in edges.iter().filter(|edge| edge.source != edge.target) {
            let name = self.picture.nodes[edge.source].tensor.name.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let more = names.len().saturating_sub(MAX_SOURCES);
        names.truncate(MAX_SOURCES);
        let by = if first.kind == RelationKind::InPlace && !names.is_empty() { "from " } else { "" };
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{by}{}{more} by {op}", names.join(", ")).trim_start().to_owned()
    }

    /// Hidden and unattributed samples.
    fn remainders(&mut self) {
        let (tensors, samples) = self.picture.hidden;
        if tensors > 0 {
            let title = format!("other ({})", number::measured(tensors as f64));
            self.line(Some(samples), "-", "", &title, TextRole::Dim);
        }
        for (reason, samples) in &self.picture.others {
            self.line(Some(*samples), "-", "", reason, TextRole::Dim);
        }
    }

    fn line(&mut self, samples: Option<f64>, own: &str, lead: &str, text: &str, role: TextRole) {
        let share = samples.map(|samples| number::percent(self.picture.share(samples))).unwrap_or_default();
        let samples = samples.map(number::measured).unwrap_or_default();
        let mut numbers = String::new();
        for (cell, room) in [(share.as_str(), 7_usize), (samples.as_str(), 9), (own, 9)] {
            numbers += &" ".repeat(room.saturating_sub(width(cell)));
            numbers += cell;
            numbers += "  ";
        }
        let used = width(&numbers) + width(lead);
        let text = printable(text).replace('\n', "␊");
        let text = shorten(&text, self.room.saturating_sub(used).max(24), ShortenSide::Middle);
        let lead = self.canvas.paint.text(TextRole::Dim, lead);
        let line = format!("{numbers}{lead}{}", self.canvas.paint.text(role, &text));
        self.text += line.trim_end();
        self.text.push('\n');
    }
}

fn other_views(count: usize) -> String {
    format!("{} other view{}", number::measured(count as f64), if count == 1 { "" } else { "s" })
}
