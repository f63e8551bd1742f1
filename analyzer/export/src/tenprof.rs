//! TenProf's files, from stallmap's views: exact where TenProf's are not, and in readable formats.
//!
//! | file | content | |---|---|
//! | `tensor_stall_cost.csv` | memory stalls of each tensor, each stall once, with unattributed ones |
//! | `forest.txt` | tensors nested in their bases: `Tree := INT ":" "{" Tree* "}" INT` |
//! | `blame.dot` | the 100 tensors that kernels waited for most, and what those are views of, for Graphviz |
//! | `pc_samples.csv` | memory stalls of each instruction of each launch, with its function and pc |

use std::collections::BTreeMap;

use crate::folder::ExportFolder;
use crate::source::print_queries;
use stallmap::library::queries::export as queries;
use stallmap_console::answer::fresh_rows as rows;
use stallmap_console::args::export::FolderExport;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::output;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;
use stallmap_lists::forest;

/// Tensors that are drawn with what they are views of. `dot` does not finish a picture of 591 with 1,222 edges.
const MAX_DRAWN: usize = 100;

/// Writes the files, or prints their queries.
pub(crate) fn run(context: &CommandContext, args: &FolderExport) -> Outcome {
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let [cost, samples, trees] =
        [queries::TENSOR_STALL_COST, queries::PC_SAMPLES, queries::FOREST].map(|query| query.sql(&[]));
    if args.sql {
        let drawn = forest::sql().join("\n");
        print_queries([
            ("tensor_stall_cost.csv", cost.as_str()),
            ("pc_samples.csv", &samples),
            ("forest.txt", &trees),
            ("blame.dot", &drawn),
        ])?;
        return Ok(OK);
    }
    let folder = ExportFolder::new(&args.folder)?;
    let progress = ProgressSpinner::for_work(session.work(), "asking");
    let runtime = runtime()?;
    for (name, sql) in [("tensor_stall_cost.csv", &cost), ("pc_samples.csv", &samples)] {
        progress.say(format!("querying {name}"));
        folder.csv(name, &runtime.block_on(rows(&session, sql))?)?;
    }
    progress.say("querying forest.txt".to_owned());
    let bases = BasedTensor::read(queries::FOREST.name, &runtime.block_on(rows(&session, &trees))?)?;
    let bases: Vec<_> = bases.into_iter().map(|row| (row.tensor_id, row.base_tensor_id)).collect();
    folder.text("forest.txt", &nested(&bases))?;
    progress.say("querying blame.dot".to_owned());
    let forest = runtime.block_on(forest::forest(&session, true))?;
    let costliest = forest::TensorChoice { top: MAX_DRAWN, tensor: None };
    folder.text("blame.dot", &forest::dot(&forest.choose(&costliest).unwrap_or_default()))?;
    folder.keep()?;
    drop(progress);
    output::wrote(&args.folder);
    Ok(OK)
}

rows! {
    /// A tensor with the one that it is a view of, bases first.
    struct BasedTensor {
        tensor_id: u64,
        base_tensor_id: Option<u64>,
    }
}

/// Trees as nested text, one tensor per line.
fn nested(bases: &[(u64, Option<u64>)]) -> String {
    let mut views: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut known = std::collections::BTreeSet::new();
    let mut roots = Vec::new();
    for &(tensor, base) in bases {
        match base {
            // A base comes first. If not, it closes a cycle.
            Some(base) if known.contains(&base) => views.entry(base).or_default().push(tensor),
            _ => roots.push(tensor),
        }
        known.insert(tensor);
    }
    let mut text = String::new();
    for root in roots {
        // Open tensors, with the number of their written views.
        let mut open = vec![(root, 0)];
        text.extend([format!("{root}: {{")]);
        while let Some((tensor, done)) = open.last_mut() {
            let depth = views.get(tensor).and_then(|views| views.get(*done)).copied();
            *done += 1;
            if let Some(view) = depth {
                text.extend([format!("\n{}{view}: {{", "  ".repeat(open.len()))]);
                open.push((view, 0));
            } else {
                text.extend([format!("}}{tensor}")]);
                open.pop();
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `Tree := INT ":" "{" Tree* "}" INT` as the published parser does. Returns pairs of tensor and base.
    fn parse(text: &str) -> Vec<(u64, Option<u64>)> {
        let (mut open, mut pairs): (Vec<u64>, _) = (Vec::new(), Vec::new());
        let text = text.replace('}', " } ");
        let mut tokens = text.split_whitespace();
        while let Some(token) = tokens.next() {
            if let Some(tensor) = token.strip_suffix(':') {
                let tensor = tensor.parse().unwrap();
                assert!(tokens.next().unwrap().starts_with('{'));
                pairs.push((tensor, open.last().copied()));
                open.push(tensor);
            } else {
                assert_eq!(token, "}");
                assert_eq!(tokens.next().unwrap().parse(), Ok(open.pop().unwrap()));
            }
        }
        assert!(open.is_empty());
        pairs
    }

    #[test]
    fn trees_are_nested_and_closed() {
        let bases = [(1, None), (5, None), (2, Some(1)), (3, Some(1)), (4, Some(2))];
        let text = nested(&bases);
        assert_eq!(text, "1: {\n  2: {\n    4: {}4}2\n  3: {}3}1\n5: {}5\n");
        let mut pairs = parse(&text);
        pairs.sort_unstable();
        assert_eq!(pairs, [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(2)), (5, None)]);
    }

    #[test]
    fn circles_are_roots() {
        assert_eq!(nested(&[(1, Some(2)), (2, Some(1))]), "1: {\n  2: {}2}1\n");
    }
}
