//! `stallmap forest`: tensors with their views and sources, and their stall costs.
//!
//! ```text
//! sql/queries/draw ──> read ──> tree (equal tensors together) ──> prune ──┬─> text, export
//!                                                                 └─> layout ──> svg; dot
//! ```

mod dot;
mod export;
mod layout;
mod prune;
mod read;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod tree;

use std::path::Path;

use stallmap::session::Session;

use self::read::{ForestTensor, TensorRelation, UnattributedSamples};
use crate::filter::LaunchFilter;
use crate::known::known;
use stallmap::library::queries::draw as queries;
use stallmap_console::answer::rows;
use stallmap_console::answer::write_rows;
use stallmap_console::args::forest::ForestArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::row::QueryRow as _;

pub use dot::dot;
pub use export::batch;
pub use prune::{ForestPicture, TensorChoice};
pub use svg::{DrawingTarget, STYLE, draw};
pub use tree::TensorForest;

/// Prints the forest, draws it, or prints its queries.
pub fn run(context: &CommandContext, args: &ForestArgs) -> Outcome {
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let runtime = runtime()?;
    let filter = runtime.block_on(LaunchFilter::from_args(&session, &args.filter))?;
    if args.sql {
        return output::print(&filtered(filter.as_ref()).join("\n")).map(|()| OK);
    }
    let (known, forest) = {
        let _progress = ProgressSpinner::for_work(session.work(), "querying tensors");
        let queries = filtered(filter.as_ref());
        (runtime.block_on(known(&session))?, runtime.block_on(asked(&session, args.each, &queries))?)
    };
    let choice =
        TensorChoice { top: usize::try_from(args.top).unwrap_or(usize::MAX), tensor: args.tensor.clone() };
    let picture = forest.choose(&choice).ok_or_else(|| no_such_tensor(args))?;
    let files = [(args.dot.as_deref(), dot as fn(&ForestPicture) -> String), (args.svg.as_deref(), file)];
    if let Some((path, draw)) = files.into_iter().find_map(|(path, draw)| Some((path?, draw))) {
        return write(path, &draw(&picture)).map(|()| OK);
    }
    known.say(&args.capture, args.output.format())?;
    filter.iter().try_for_each(|filter| filter.say(args.output.format(), "these"))?;
    match args.output.format().for_programs() {
        Some(format) => write_rows(&[export::batch(&picture).map_err(arrow_failure)?], format)?,
        None => show(&picture)?,
    }
    Ok(OK)
}

/// The forest of a capture: all its tensors, separate with `each`, otherwise grouped.
pub async fn forest(session: &Session, each: bool) -> Outcome<TensorForest> {
    asked(session, each, &sql()).await
}

async fn asked(session: &Session, each: bool, [nodes, edges, others]: &[String; 3]) -> Outcome<TensorForest> {
    let nodes = ForestTensor::read("nodes", &rows(session, nodes).await?)?;
    let edges = TensorRelation::read("edges", &rows(session, edges).await?)?;
    let others = UnattributedSamples::read("others", &rows(session, others).await?)?;
    let others = others.into_iter().map(|other| (other.remainder, other.samples)).collect();
    Ok(TensorForest::from_tensors(&nodes, &edges, others, each))
}

/// The queries of the forest: tensors, relations, and costs outside the trees.
pub fn sql() -> [String; 3] {
    [queries::NODES, queries::EDGES, queries::OTHERS].map(|query| query.sql(&[]))
}

/// The queries, restricted to the launches of a filter if there is one.
fn filtered(filter: Option<&LaunchFilter>) -> [String; 3] {
    sql().map(|sql| filter.map_or(sql.clone(), |filter| filter.sql(&sql)))
}

fn file(picture: &ForestPicture) -> String {
    svg::draw(picture, svg::DrawingTarget::File)
}

fn no_such_tensor(args: &ForestArgs) -> CommandFailure {
    let name = args.tensor.as_deref().unwrap_or_default();
    let name = output::shorten::printable(name);
    CommandFailure::message(USAGE, format!("no tensor's name holds `{name}`, and none has that tensor_id"))
        .hint("stallmap sql NAME.stallmap -c 'SELECT DISTINCT tensor FROM tensor_node' lists them".to_owned())
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    if path == Path::new("-") {
        return output::print_data(text.as_bytes());
    }
    output::file::save(path, text.as_bytes())
}

fn show(picture: &ForestPicture) -> Outcome<()> {
    let canvas = output::page();
    let heading = canvas.paint.text(TextRole::Heading, "Tensor forest");
    let doc = [
        "Samples of warps that waited for a tensor and its views. self: for the tensor alone. Below each tensor, its",
        "views. ← its source, ✎ writes into it. Tensors with equal op, line and shape are one row (×). Rows in",
        "parentheses are hidden or unattributed. Trees and these rows add up to the samples.",
    ];
    let doc = doc.map(|line| canvas.paint.text(TextRole::Dim, line)).join("\n");
    output::print(&format!("{heading}\n{doc}\n{}", text::draw(picture, canvas)))
}
