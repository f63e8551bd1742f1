//! Measured work over time: one row a stream, kernels and copies in equal stretches, and a timeline to zoom into.

mod pack;
mod spans;

use stallmap::library::queries::{self, CommandQuery};

use super::ask::{SessionAsker, read};
use super::block::PageSection;
use super::links::PageLinks;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_console::output::number::{counted, nanoseconds, percent};
use stallmap_console::rows;

/// Streams with a row of their own.
pub(super) const STREAMS: u64 = 16;
/// Width of a drawing.
const WIDTH: f64 = 1000.0;
/// Its height: the whole stretch is work.
const HEIGHT: f64 = 20.0;

rows! {
    /// Work of a stream in one stretch.
    #[derive(Clone, Debug)]
    struct StreamWork {
        place: u64,
        streams: u64,
        rank: Option<i64>,
        device_id: Option<i64>,
        stream_id: Option<u64>,
        kernels: u64,
        copies: u64,
        stretch: u64,
        kernel_ns: f64,
        copy_ns: f64,
        stretch_ns: f64,
        span_ns: f64,
    }
}

/// Text for a capture without measured times.
const NO_TIMES: &str = "No work of the GPUs has measured times in this capture, so there is no timeline.";

/// The queries of the timeline to zoom into, with the most rows of each.
pub(super) const SPANS: [(CommandQuery, u64); 3] = [
    (queries::page::ACTIVITIES, spans::MAX_ACTIVITIES),
    (queries::page::HOST, spans::MAX_SPANS),
    (queries::page::STEPS, 0),
];

/// The section.
pub(super) async fn block(asker: &SessionAsker<'_>, links: &PageLinks) -> Outcome<PageSection> {
    let answer = asker.ask(queries::page::TIMELINE, &[("$top", STREAMS)]).await?;
    let rows: Vec<StreamWork> = read(&answer)?;
    let mut block = PageSection::for_answer("timeline", &answer);
    let Some(first) = rows.first() else {
        block.doc.clear();
        block.body.markup("<p class=\"dim\">").text(NO_TIMES).markup("</p>\n");
        return Ok(block);
    };
    drawing(asker, &mut block, links).await?;
    let html = &mut block.body;
    html.markup("<ul class=\"legend\"><li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"kernels\" width=\"100%\" height=\"12\"/></svg>kernels</li>");
    html.markup("<li><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"copies\" width=\"100%\" height=\"12\"/></svg>copies and fills</li></ul>\n<ul class=\"timeline\">\n");
    for stream in rows.chunk_by(|a, b| a.place == b.place) {
        row(html, stream);
    }
    html.markup("</ul>\n<div class=\"axis\"><span>0</span><span>").text(&nanoseconds(first.span_ns));
    html.markup("</span></div>\n");
    Ok(block)
}

/// The timeline to zoom into, above the overview.
async fn drawing(asker: &SessionAsker<'_>, block: &mut PageSection, links: &PageLinks) -> Outcome<()> {
    let [work, host, steps] = SPANS.map(|(query, top)| (query, [("$top", top)]));
    let work = asker.ask(work.0, &work.1).await?;
    let host = asker.ask(host.0, &host.1).await?;
    let steps = asker.ask(steps.0, &steps.1).await?;
    let Some(data) = spans::data(&work, &host, &steps, links)? else { return Ok(()) };
    for answer in [&work, &host, &steps] {
        block.asked(answer);
    }
    block.body.markup("<div class=\"spans\" data-picture=\"timeline\"></div>\n");
    block.body.markup("<noscript><p class=\"doc\">The timeline to zoom into needs JavaScript. `stallmap export perfetto` writes one for a viewer.</p></noscript>\n<h3>All of the run</h3>\n");
    block.data = Some(("timeline", data));
    Ok(())
}

/// One stream: its name, its work, its drawing.
fn row(html: &mut HtmlPage, rows: &[StreamWork]) {
    let Some(first) = rows.first() else { return };
    let busy: f64 = rows.iter().map(|row| row.kernel_ns + row.copy_ns).sum();
    let share = busy / (first.span_ns.max(1.0) * first.streams.max(1) as f64);
    let mut words = vec![counted(first.kernels, "kernel", "kernels")];
    if first.copies > 0 {
        words.push(counted(first.copies, "copy", "copies"));
    }
    words.push(format!("busy {} of the span", percent(share)));
    let (name, words) = (name(first), words.join(", "));
    html.markup("<li><span>").text(&name).markup("<br><span class=\"dim small\">").text(&words);
    html.markup(
        "</span></span><svg role=\"img\" viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" aria-label=\"",
    );
    html.text(&format!("{name}: {words}")).markup("\"><path class=\"kernels\" d=\"");
    steps(html, rows, |row| (0.0, row.kernel_ns));
    html.markup("\"/><path class=\"copies\" d=\"");
    steps(html, rows, |row| (row.kernel_ns, row.copy_ns));
    html.markup("\"/></svg></li>\n");
}

fn name(row: &StreamWork) -> String {
    let (Some(device), Some(stream)) = (row.device_id, row.stream_id) else {
        return counted(row.streams, "other stream", "other streams");
    };
    let rank = row.rank.map(|rank| format!("rank {rank}, ")).unwrap_or_default();
    format!("{rank}GPU {device}, stream {stream}")
}

/// A rectangle for each stretch with work: its height is the part of the stretch. The values are the work below it, and
/// its own.
fn steps(html: &mut HtmlPage, rows: &[StreamWork], work: impl Fn(&StreamWork) -> (f64, f64)) {
    for row in rows {
        let (below, own) = work(row);
        let all = row.stretch_ns.max(1.0) * row.streams.max(1) as f64;
        if own <= 0.0 {
            continue;
        }
        let x = |stretch: u64| WIDTH * (stretch as f64 * row.stretch_ns / row.span_ns.max(1.0)).min(1.0);
        let y = |ns: f64| HEIGHT * (1.0 - (ns / all).min(1.0));
        html.markup("M").number(x(row.stretch)).markup(" ").number(y(below));
        html.markup("V").number(y(below + own)).markup("H").number(x(row.stretch.saturating_add(1)));
        html.markup("V").number(y(below)).markup("Z");
    }
}
