//! `stallmap forest`: tensors with their views and sources, and their stall costs.
//!
//! ```text
//! sql/draw ──> read ──> tree (equal tensors together) ──> prune ──┬─> text, export
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

use std::fs;
use std::path::Path;

use stallmap::session::Session;

use super::answer::rows;
use super::known::known;
use super::section::{self, Section};
use super::top::write_rows;
use super::{arrow_failure, open, runtime};
use crate::args::forest::Forest as Args;
use crate::exit::{Failure, OK, Outcome, QUERY, USAGE};
use crate::output;
use crate::output::paint::Role;
use crate::output::progress::Progress;

pub(crate) use dot::dot;
pub(crate) use export::batch;
pub(crate) use prune::{Choice, Picture};
pub(crate) use svg::{Place, STYLE, draw};
pub(crate) use tree::Forest;

/// The queries in `sql/draw`.
const QUERIES: [&str; 3] = ["nodes", "edges", "others"];

/// Prints the forest, draws it, or prints its queries.
pub(super) fn run(args: &Args) -> Outcome {
    let session = {
        let _progress = Progress::start(format!("opening {}", args.capture.display()));
        open(&[(None, args.capture.clone())])?
    };
    if args.sql {
        return output::print(&sql()?.join("\n")).map(|()| OK);
    }
    let runtime = runtime()?;
    let (known, forest) = {
        let _progress = Progress::start("querying tensors");
        (runtime.block_on(known(&session))?, runtime.block_on(forest(&session, args.each))?)
    };
    let choice = Choice { top: usize::try_from(args.top).unwrap_or(usize::MAX), tensor: args.tensor.clone() };
    let picture = forest.choose(&choice).ok_or_else(|| no_such_tensor(args))?;
    let files = [(args.dot.as_deref(), dot as fn(&Picture) -> String), (args.svg.as_deref(), file)];
    if let Some((path, draw)) = files.into_iter().find_map(|(path, draw)| Some((path?, draw))) {
        return write(path, &draw(&picture)).map(|()| OK);
    }
    known.say(&args.capture, args.format)?;
    match args.format.for_programs() {
        Some(format) => write_rows(&[export::batch(&picture).map_err(arrow_failure)?], format)?,
        None => show(&picture)?,
    }
    Ok(OK)
}

/// The forest of a capture: all its tensors, separate with `each`, otherwise grouped.
pub(crate) async fn forest(session: &Session, each: bool) -> Outcome<Forest> {
    let [nodes, edges, others] = sql()?;
    let nodes = read::tensors(&rows(session, &nodes).await?)?;
    let edges = read::relations(&rows(session, &edges).await?)?;
    let others = read::others(&rows(session, &others).await?)?;
    Ok(Forest::of(&nodes, &edges, others, each))
}

/// The queries of the forest: tensors, relations, and costs outside the trees.
pub(crate) fn sql() -> Outcome<[String; 3]> {
    let sections: Vec<Section> = section::sections("draw", &QUERIES);
    let texts = sections.into_iter().map(|section| section.sql(&[])).collect::<Vec<_>>();
    texts.try_into().map_err(|_: Vec<String>| Failure::message(QUERY, "a query of sql/draw is missing"))
}

fn file(picture: &Picture) -> String {
    svg::draw(picture, svg::Place::File)
}

fn no_such_tensor(args: &Args) -> Failure {
    let name = args.tensor.as_deref().unwrap_or_default();
    let name = output::shorten::printable(name);
    Failure::message(USAGE, format!("no tensor's name holds `{name}`, and none has that tensor_id"))
        .hint("stallmap sql NAME.stallmap -c 'SELECT DISTINCT tensor FROM tensor_node' lists them".to_owned())
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    if path == Path::new("-") {
        return output::print(text);
    }
    fs::write(path, text).map_err(|error| Failure::io(error, format!("write `{}`", path.display())))
}

fn show(picture: &Picture) -> Outcome<()> {
    let canvas = output::page();
    let heading = canvas.paint.text(Role::Heading, "Tensor forest");
    let doc = [
        "Samples of warps that waited for a tensor and its views. self: for the tensor alone. Below each tensor, its",
        "views. ← its source, ✎ writes into it. Tensors with equal op, line and shape are one row (×). Rows in",
        "parentheses are hidden or unattributed. Trees and these rows add up to the samples.",
    ];
    let doc = doc.map(|line| canvas.paint.text(Role::Dim, line)).join("\n");
    output::print(&format!("{heading}\n{doc}\n{}", text::draw(picture, canvas)))
}
