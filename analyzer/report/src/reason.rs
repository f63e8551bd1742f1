//! Stall reasons: their colours, the same in every drawing, and their meanings.

use stallmap_console::output::html::HtmlPage;

use crate::glossary::meaning;

/// Reasons that are waits for memory, and the other ones, each with its own colour by position. Further ones share one.
/// Colour is never the only mark: waits for memory are hatched, and every part has its name.
pub(crate) const REASONS: [&[&str]; 2] = [
    &[
        "long_scoreboard",
        "short_scoreboard",
        "lg_throttle",
        "mio_throttle",
        "tex_throttle",
        "drain",
        "membar",
    ],
    &[
        "wait",
        "selected",
        "not_selected",
        "barrier",
        "math_pipe_throttle",
        "branch_resolving",
        "no_instructions",
        "dispatch_stall",
        "imc_miss",
    ],
];

/// True if stallmap knows a reason as a wait for memory.
pub(crate) fn is_memory(reason: &str) -> bool {
    REASONS[0].contains(&reason)
}

/// The class that colours a reason.
fn class(reason: &str, is_memory: bool) -> String {
    let known = if is_memory { REASONS[0] } else { REASONS[1] };
    let index = known.iter().position(|known| *known == reason).map_or(0, |index| index + 1);
    format!("{}{index}", if is_memory { 'm' } else { 's' })
}

/// The pattern of waits for memory, once per page.
pub(crate) const HATCH: &str = "<svg class=\"defs\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><path d=\"M0 0V6\"/></pattern></defs></svg>\n";

/// A part of a bar, by its position and width as parts of one.
pub(crate) fn part(html: &mut HtmlPage, reason: &str, is_memory: bool, (x, width): (f64, f64)) {
    html.markup("<rect class=").text(&class(reason, is_memory)).markup(" x=").percent(x);
    html.markup(" width=").percent(width).markup(" />");
    if is_memory {
        html.markup("<rect fill=url(#hatch) x=").percent(x).markup(" width=").percent(width).markup(" />");
    }
}

/// A term with its meaning as a tooltip, or the plain text if the glossary lacks it.
pub(crate) fn explained(html: &mut HtmlPage, term: &str) {
    match meaning(term) {
        Some(meaning) => {
            html.markup("<abbr title=\"").text(meaning).markup("\">").text(term).markup("</abbr>");
        }
        None => {
            html.text(term);
        }
    }
}
