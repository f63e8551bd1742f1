//! Blocks over time: a lane for each multiprocessor of a launch, drawn by the page's script.

use serde_json::{Value, json};
use stallmap::library::queries;

use super::ask::{SessionAsker, read};
use super::block::PageSection;
use stallmap_console::exit::Outcome;
use stallmap_console::output::number::{grouped, measured, nanoseconds, percent};
use stallmap_console::rows;

/// Launches with a picture.
pub(super) const TIMED_LAUNCHES: u64 = 8;

rows! {
    /// A block of a launch that is drawn.
    #[derive(Clone, Debug)]
    struct DrawnBlock {
        kernel_id: u64,
        kernel: Option<String>,
        line: Option<String>,
        block_count: u64,
        timed_blocks: u64,
        span_ns: f64,
        waves: Option<f64>,
        imbalance: Option<f64>,
        block_share: Option<f64>,
        tail_share: Option<f64>,
        multiprocessor: i64,
        block: i64,
        begin_ns: i64,
        duration_ns: i64,
        wave: Option<i64>,
    }
}

/// The section. None where no blocks were timed.
pub(super) async fn block(asker: &SessionAsker<'_>) -> Outcome<Option<PageSection>> {
    let answer = asker.ask(queries::page::BLOCKS, &[("$top", TIMED_LAUNCHES)]).await?;
    let rows: Vec<DrawnBlock> = read(&answer)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut block = PageSection::for_answer("blocks", &answer);
    let launches: Vec<&[DrawnBlock]> = rows.chunk_by(|a, b| a.kernel_id == b.kernel_id).collect();
    block.body.markup("<div class=\"waves\" data-picture=\"waves\"></div>\n<ul>\n");
    for launch in &launches {
        block.body.markup("<li>").text(&sentence(launch)).markup("</li>\n");
    }
    block.body.markup("</ul>\n<noscript><p class=\"doc\">The picture needs JavaScript.</p></noscript>\n");
    block.data = Some(("waves", launches.iter().map(|launch| picture(launch)).collect()));
    Ok(Some(block))
}

/// Name of a launch.
fn name(first: &DrawnBlock) -> String {
    let kernel = first.kernel.as_deref().unwrap_or("(unnamed)");
    let line = first.line.as_ref().map(|line| format!(" at {line}")).unwrap_or_default();
    format!("{kernel}{line}, launch {}", first.kernel_id)
}

/// A launch in numbers.
fn sentence(launch: &[DrawnBlock]) -> String {
    let Some(first) = launch.first() else { return String::new() };
    let mut words = vec![format!("{} blocks", grouped(first.block_count.into()))];
    words.extend(first.waves.map(|waves| format!("{} waves", measured(waves))));
    words.push(format!("{} from the first begin to the last end", nanoseconds(first.span_ns)));
    words.extend(first.block_share.map(|share| format!("slots busy for {}", percent(share))));
    words.extend(first.tail_share.map(|share| format!("{} behind their last block", percent(share))));
    words.extend(first.imbalance.map(|ratio| format!("longest block {} times the mean", measured(ratio))));
    format!("{}: {}", name(first), words.join(", "))
}

/// A launch for the script: of each multiprocessor block, begin, length and wave of its blocks, one after the other.
fn picture(launch: &[DrawnBlock]) -> Value {
    let lanes: Vec<Value> = launch
        .chunk_by(|a, b| a.multiprocessor == b.multiprocessor)
        .map(|lane| {
            let blocks = lane.iter();
            let blocks = blocks.flat_map(|at| [at.block, at.begin_ns, at.duration_ns, at.wave.unwrap_or(0)]);
            json!([lane.first().map(|at| at.multiprocessor), blocks.collect::<Vec<i64>>()])
        })
        .collect();
    let (name, span, timed) = launch
        .first()
        .map_or_else(Default::default, |first| (name(first), first.span_ns, first.timed_blocks));
    json!({ "name": name, "span": span, "blocks": timed, "lanes": lanes })
}
