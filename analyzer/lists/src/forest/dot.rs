//! The forest as Graphviz text.

use super::prune::ForestPicture;
use super::svg::{label, tooltip};
use super::tree::RelationKind;

/// The forest for Graphviz: roots solid, views dashed, size by cost, the path to the costliest tensor red.
pub fn dot(picture: &ForestPicture) -> String {
    let mut text = String::from(
        "digraph forest {\n  rankdir=LR;\n  node [shape=ellipse, fontname=\"sans-serif\", fontsize=10];\n  \
         edge [fontname=\"sans-serif\", fontsize=9, color=gray50];\n",
    );
    for (index, node) in picture.nodes.iter().enumerate() {
        let share = picture.share(node.samples);
        let side = 0.5 + 3.0 * share.sqrt();
        let style = if node.base.is_some() { "dashed" } else { "solid" };
        let color = if picture.blamed[index] { ", color=red, fontcolor=red" } else { "" };
        let (name, detail) = label(picture, index);
        text.extend([format!(
            "  n{index} [label={}, tooltip={}, style={style}, width={side:.2}, height={:.2}{color}];\n",
            quoted(&format!("{name}\n{detail}")),
            quoted(&tooltip(picture, index)),
            side * 0.6,
        )]);
        if let Some(base) = node.base {
            let op = node.tensor.op.as_deref().map(short_op).unwrap_or_default();
            let color = if picture.blamed[index] { ", color=red" } else { "" };
            text.extend([format!("  n{base} -> n{index} [label={}, style=dashed{color}];\n", quoted(op))]);
        }
    }
    for edge in &picture.edges {
        let style = match edge.kind {
            _ if picture.is_blamed(edge) => "color=red, penwidth=1.6",
            RelationKind::Copy => "color=green4",
            RelationKind::InPlace => "color=purple, style=dotted",
            RelationKind::Op => "color=gray60",
        };
        let op = edge.op.as_deref().map(short_op).unwrap_or_default();
        let (source, target, line) = (edge.source, edge.target, edge.line.as_deref().unwrap_or_default());
        let tip = quoted(&format!("{op} at {line}"));
        text.extend([format!("  n{source} -> n{target} [label={}, tooltip={tip}, {style}];\n", quoted(op))]);
    }
    text + "}\n"
}

/// An op's name without its namespace and overload.
pub(super) fn short_op(op: &str) -> &str {
    let name = op.rsplit_once("::").map_or(op, |(_, name)| name);
    name.split_once('.').map_or(name, |(name, _)| name)
}

/// Text between quotes, escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            char if char.is_control() => quoted.push('\u{fffd}'),
            char => quoted.push(char),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes() {
        assert_eq!(quoted("a\"];\n\\x\u{1b}"), "\"a\\\"];\\n\\\\x\u{fffd}\"");
    }

    #[test]
    fn ops_lose_namespace_and_overload() {
        assert_eq!(short_op("aten::add_.Tensor"), "add_");
        assert_eq!(short_op("softmax_rows"), "softmax_rows");
    }
}
