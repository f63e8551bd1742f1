//! The forest as SVG, drawn without another program: as a file, or within a page.
//!
//! Captures are untrusted: everything except numbers and fixed markup goes through `escaped`.

use std::collections::BTreeMap;

use super::dot::short_op;
use super::layout::{ForestLayout, layout};
use super::prune::ForestPicture;
use super::tree::RelationKind;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number;
use stallmap_console::output::shorten::{ShortenSide, shorten};

/// Width of a layer.
const COLUMN: f64 = 206.0;
/// Around everything.
const MARGIN: f64 = 18.0;
/// Height of the two lines below a node.
const LABEL: f64 = 31.0;
/// Letters per line below a node.
const LETTERS: usize = 32;
/// Height of the legend.
const LEGEND: f64 = 64.0;
/// Width that the legend needs.
const LEGEND_WIDTH: f64 = 720.0;

/// Style of a drawing, in light and in dark. A page has it in its own style sheet.
pub const STYLE: &str = include_str!("style.css");

/// Destination of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawingTarget {
    /// In a separate file.
    File,
    /// In a page, whose element `tensor-ID` a node leads to.
    Page,
}

/// A line between two nodes, for any relation.
struct RelationLine {
    source: usize,
    target: usize,
    class: &'static str,
    op: String,
    tooltip: String,
}

/// Draws a forest: roots solid, views dashed, size by cost, the path to the costliest tensor red.
pub fn draw(picture: &ForestPicture, place: DrawingTarget) -> String {
    let lines = lines(picture);
    let heights: Vec<f64> =
        (0..picture.nodes.len()).map(|node| 2.0 * radius(picture, node) + LABEL).collect();
    let ends: Vec<(usize, usize)> = lines.iter().map(|line| (line.source, line.target)).collect();
    let layout = layout(&heights, &ends);
    let drawing = ForestDrawing { picture, layout: &layout, heights: &heights };
    let width = (layout.layers as f64 * COLUMN + 2.0 * MARGIN).max(LEGEND_WIDTH);
    let height = layout.height + 2.0 * MARGIN + LEGEND;
    // A page needs no svg namespace. Without one, no URL appears. Its nodes are links, which an image cannot hold.
    let (space, role) = match place {
        DrawingTarget::File => (" xmlns=\"http://www.w3.org/2000/svg\"", "img"),
        DrawingTarget::Page => ("", "group"),
    };
    let mut svg = format!(
        "<svg{space} class=\"tf\" role=\"{role}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n<title>Tensor forest</title>\n",
    );
    if place == DrawingTarget::File {
        svg.extend(["<style>\n", STYLE, "</style>\n"]);
        svg += "<rect class=\"tf-back\" width=\"100%\" height=\"100%\"/>\n";
    }
    for (line, passed) in lines.iter().zip(&layout.edges) {
        drawing.line(&mut svg, line, passed);
    }
    for node in 0..picture.nodes.len() {
        drawing.node(&mut svg, node, place);
    }
    legend(&mut svg, picture, layout.height + 2.0 * MARGIN);
    svg + "</svg>\n"
}

struct ForestDrawing<'a> {
    picture: &'a ForestPicture,
    layout: &'a ForestLayout,
    heights: &'a [f64],
}

impl ForestDrawing<'_> {
    /// The middle of a node's circle.
    fn middle(&self, node: usize) -> (f64, f64) {
        let (layer, middle) = self.layout.nodes[node];
        (column(layer), MARGIN + middle - self.heights[node] / 2.0 + radius(self.picture, node))
    }

    fn line(&self, svg: &mut String, line: &RelationLine, passed: &[(usize, f64)]) {
        let ((from, start), (to, end)) = (self.middle(line.source), self.middle(line.target));
        let direction = if to >= from { 1.0 } else { -1.0 };
        let mut points = vec![(from + direction * (radius(self.picture, line.source) + 1.0), start)];
        points.extend(passed.iter().map(|&(layer, middle)| (column(layer), MARGIN + middle)));
        points.push((to - direction * (radius(self.picture, line.target) + 5.0), end));
        let mut path = String::new();
        for (rank, pair) in points.windows(2).enumerate() {
            if let &[(x, y), (x2, y2)] = pair {
                let bend = (x2 - x) / 2.0;
                if rank == 0 {
                    path.extend([format!("M{x:.1} {y:.1}")]);
                }
                path.extend([format!("C{:.1} {y:.1} {:.1} {y2:.1} {x2:.1} {y2:.1}", x + bend, x2 - bend)]);
            }
        }
        let (class, tooltip) = (line.class, escaped(&line.tooltip));
        svg.extend([format!(
            "<g class=\"tf-line tf-{class}\"><title>{tooltip}</title><path d=\"{path}\"/>{}\n",
            head(to - direction * (radius(self.picture, line.target) + 1.0), end, direction),
        )]);
        if let [(x, y), (x2, y2), ..] = points[..]
            && line.class != "op"
        {
            let (x, y) = (f64::midpoint(x, x2), f64::midpoint(y, y2) - 4.0);
            let op = escaped(&shorten(&line.op, 16, ShortenSide::Middle));
            svg.extend([format!("<text x=\"{x:.1}\" y=\"{y:.1}\">{op}</text>\n")]);
        }
        svg.push_str("</g>\n");
    }

    fn node(&self, svg: &mut String, node: usize, place: DrawingTarget) {
        let (x, y) = self.middle(node);
        let radius = radius(self.picture, node);
        let shown = &self.picture.nodes[node];
        let mut class = String::from("tf-node");
        if shown.base.is_some() {
            class += " tf-is-view";
        }
        if self.picture.blamed[node] {
            class += " tf-is-hot";
        }
        let (name, detail) = label(self.picture, node);
        let (name, detail) = (escaped(&name), escaped(&detail));
        let tooltip = escaped(&tooltip(self.picture, node));
        let id = shown.tensor.id;
        let (open, close) = match place {
            DrawingTarget::File => (String::new(), ""),
            DrawingTarget::Page => (format!("<a href=\"#tensor-{id}\">"), "</a>"),
        };
        let (first, second) = (y + radius + 13.0, y + radius + 26.0);
        svg.extend([format!(
            "{open}<g class=\"{class}\"><title>{tooltip}</title><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>\n",
        )]);
        svg.extend([format!("<text x=\"{x:.1}\" y=\"{first:.1}\">{name}</text>\n")]);
        svg.extend([format!("<text class=\"tf-detail\" x=\"{x:.1}\" y=\"{second:.1}\">{detail}</text>")]);
        svg.push_str("</g>");
        svg.push_str(close);
        svg.push('\n');
    }
}

/// Views and relations, one line from a node to another.
fn lines(picture: &ForestPicture) -> Vec<RelationLine> {
    let mut lines: BTreeMap<(usize, usize), RelationLine> = BTreeMap::new();
    for (place, node) in picture.nodes.iter().enumerate() {
        if let Some(base) = node.base {
            let class = if picture.blamed[place] { "hot" } else { "view" };
            let op = node.tensor.op.as_deref().map(short_op).unwrap_or_default().to_owned();
            let line = node.tensor.born_at.as_deref().unwrap_or("an unknown line");
            let tooltip = format!("view: {op} at {line}");
            lines.insert((base, place), RelationLine { source: base, target: place, class, op, tooltip });
        }
    }
    let mut edges: Vec<_> = picture.edges.iter().filter(|edge| edge.source != edge.target).collect();
    edges.sort_by_key(|edge| (edge.source, edge.target, edge.kind));
    for edge in edges {
        let (class, word) = match edge.kind {
            _ if picture.is_blamed(edge) => ("hot", "copy"),
            RelationKind::Copy => ("copy", "copy"),
            RelationKind::InPlace => ("write", "writes in place"),
            RelationKind::Op => ("op", "op"),
        };
        let op = edge.op.as_deref().map(short_op).unwrap_or_default().to_owned();
        let at = edge.line.as_deref().unwrap_or("an unknown line");
        let times = if edge.calls > 1 { format!(" ×{}", edge.calls) } else { String::new() };
        let tooltip = format!("{word}: {op} at {at}{times}");
        let (source, target) = (edge.source, edge.target);
        let line = lines.entry((source, target)).or_insert_with(|| RelationLine {
            source,
            target,
            class,
            op,
            tooltip: String::new(),
        });
        if !line.tooltip.is_empty() {
            line.tooltip.push('\n');
        }
        line.tooltip += &tooltip;
    }
    lines.into_values().collect()
}

/// Label of a node: its name, and its cost with its shape.
pub(super) fn label(picture: &ForestPicture, place: usize) -> (String, String) {
    let node = &picture.nodes[place];
    let times = if node.count > 1 { format!(" ×{}", node.count) } else { String::new() };
    let made = node.tensor.name.strip_suffix("()");
    let line = node.tensor.born_at.as_deref().filter(|_| made.is_some()).and_then(line_number);
    let line = line.map(|line| format!(" :{line}")).unwrap_or_default();
    let name = made.map_or(node.tensor.name.as_str(), short_op).to_owned() + &line;
    let name = shorten(&name, LETTERS.saturating_sub(times.chars().count()), ShortenSide::Middle) + &times;
    // Strides are in the tooltip.
    let shape = node.tensor.shape.as_deref().unwrap_or_default();
    let shape = shape.split_once(" strides ").map_or(shape, |(shape, _)| shape).to_owned();
    let detail = if node.samples > 0.0 {
        format!("{} · {shape}", number::percent(picture.share(node.samples)))
    } else {
        shape
    };
    (name, shorten(&detail, LETTERS, ShortenSide::End))
}

/// The line of a location such as `train.py:31 forward (grad)`.
fn line_number(place: &str) -> Option<&str> {
    let (_, line) = place.split(' ').next()?.rsplit_once(':')?;
    (!line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())).then_some(line)
}

/// Tooltip of a node.
pub(super) fn tooltip(picture: &ForestPicture, place: usize) -> String {
    let node = &picture.nodes[place];
    let tensor = &node.tensor;
    let mut text = tensor.name.clone();
    if node.count > 1 {
        text.extend([format!(" ×{}", node.count)]);
    }
    if let Some(shape) = &tensor.shape {
        text.extend([format!("\n{shape}")]);
    }
    if node.base.is_some() && tensor.is_contiguous != Some(true) {
        text += ", not contiguous";
    }
    let (own, tree) = (number::measured(node.samples), number::measured(node.tree_samples));
    let share = number::percent(picture.share(node.samples));
    text.extend([format!("\n{own} samples, {share}; with its views {tree}")]);
    if node.time_ns > 0.0 {
        text.extend([format!("; {}", number::nanoseconds(node.time_ns))]);
    }
    for (word, line) in [("allocated", &tensor.born_at), ("waited", &tensor.stalled_at)] {
        if let Some(line) = line {
            text.extend([format!("\n{word} at {line}")]);
        }
    }
    let (views, samples) = picture.hidden_views[place];
    if views > 0 {
        let noun = if views == 1 { "view" } else { "views" };
        text.extend([format!("\n{views} other {noun}, {} samples, not shown", number::measured(samples))]);
    }
    text
}

/// Legend of lines and circles, and the hidden parts.
fn legend(svg: &mut String, picture: &ForestPicture, top: f64) {
    let (end, left) = (LEGEND_WIDTH - MARGIN, MARGIN + 2.0);
    svg.extend([format!("<g class=\"tf-legend\"><path class=\"tf-rule\" d=\"M{MARGIN} {top}H{end}\"/>\n")]);
    symbols(svg, top + 19.0);
    let (y, summary) = (top + 46.0, escaped(&shares(picture)));
    svg.extend([format!("<text x=\"{left:.0}\" y=\"{y:.0}\">{summary}</text></g>\n")]);
}

fn symbols(svg: &mut String, y: f64) {
    let (mut x, base) = (MARGIN + 8.0, y + 4.0);
    for (class, word) in
        [("", "tensor"), (" tf-is-view", "view of another"), (" tf-is-hot", "path to the costliest")]
    {
        svg.extend([format!(
            "<g class=\"tf-node{class}\"><circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"6\"/></g>"
        )]);
        svg.extend([format!("<text x=\"{:.0}\" y=\"{base:.0}\">{word}</text>\n", x + 12.0)]);
        x += 32.0 + 6.2 * word.len() as f64;
    }
    for (class, word) in [("copy", "copy"), ("write", "writes in place"), ("op", "created from")] {
        let head = head(x + 22.0, y, 1.0);
        svg.extend([format!("<g class=\"tf-line tf-{class}\"><path d=\"M{x:.0} {y:.0}h20\"/>{head}</g>")]);
        svg.extend([format!("<text x=\"{:.0}\" y=\"{base:.0}\">{word}</text>\n", x + 28.0)]);
        x += 46.0 + 6.2 * word.len() as f64;
    }
}

/// Shown and hidden shares of all samples.
fn shares(picture: &ForestPicture) -> String {
    // The sum of nothing is a negative zero.
    let shown = 0.0 + picture.nodes.iter().map(|node| node.samples).sum::<f64>();
    let (tensors, hidden) =
        picture.hidden_views.iter().fold(picture.hidden, |sum, views| (sum.0 + views.0, sum.1 + views.1));
    let nowhere: f64 = picture.others.iter().map(|(_, samples)| samples).sum();
    let share = |samples: f64| number::percent(picture.share(samples));
    let others = if tensors > 0 {
        format!(" {} other tensors: {},", number::measured(tensors as f64), share(hidden))
    } else {
        String::new()
    };
    format!(
        "Area: samples of warps that waited for it. Shown: {},{others} unattributed: {}.",
        share(shown),
        share(nowhere),
    )
}

/// The head of a line that ends here, pointing to the right (1) or to the left (-1).
fn head(x: f64, y: f64, direction: f64) -> String {
    let back = x - direction * 7.0;
    format!(
        "<path class=\"tf-head\" d=\"M{back:.1} {:.1}L{x:.1} {y:.1}L{back:.1} {:.1}z\"/>",
        y - 3.4,
        y + 3.4
    )
}

/// A node's radius: the area beyond the minimum is proportional to the node's samples.
fn radius(picture: &ForestPicture, node: usize) -> f64 {
    let (samples, most) = (picture.nodes[node].samples.max(0.0), picture.most);
    let part = if most > 0.0 { samples / most } else { 0.0 };
    6.0 + 24.0 * part.sqrt()
}

fn column(layer: usize) -> f64 {
    MARGIN + (layer as f64 + 0.5) * COLUMN
}

/// Untrusted text, escaped.
fn escaped(text: &str) -> String {
    let mut html = HtmlPage::default();
    html.text(text);
    html.finish()
}
