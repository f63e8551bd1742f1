//! `stallmap diff --first`: the first launch and tensor at which two runs of one program differ.

mod accesses;
mod arguments;
mod found;
mod memory;
mod row;
mod side;
mod value;
mod walk;

use serde_json::{Value, json};
use stallmap::session::Session;
use stallmap_console::args::diff::{DiffArgs, DiffFormat};
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::output::number::grouped;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::shorten::{printable, wrap};
use stallmap_console::output::table::TextTable;
use stallmap_console::output::{self, written};

use self::accesses::AccessComparison;
use self::arguments::{ArgumentComparison, ArgumentCounts};
use self::found::{AspectCoverage, FirstDifference, LaunchAspect};
use self::memory::{MemoryComparison, PageCounts};
use self::side::ComparedRun;
use self::walk::{LaunchPair, LaunchWalk};

/// The differences of two runs, and the parts that were compared.
struct RunComparison {
    /// The first of each aspect, in the order of launches.
    differences: Vec<FirstDifference>,
    coverage: Vec<AspectCoverage>,
}

/// Compares two captures, and prints.
pub fn run(context: &CommandContext, args: &DiffArgs) -> Outcome {
    let [base, other] = args.captures.as_slice() else {
        return Err(CommandFailure::message(USAGE, "--first compares two captures".to_owned())
            .hint("name the captures of two runs of one program".to_owned()));
    };
    let is_json = match args.format() {
        DiffFormat::Json => true,
        DiffFormat::Text => false,
        _ => {
            return Err(CommandFailure::message(USAGE, "--first has no such format".to_owned())
                .hint("use --format text or json".to_owned()));
        }
    };
    let sessions = {
        let _progress = ProgressSpinner::start("opening the captures");
        (context.open(&[(None, base.path.clone())])?, context.open(&[(None, other.path.clone())])?)
    };
    let found = {
        let _progress = ProgressSpinner::start("comparing launches");
        runtime()?.block_on(compare(&sessions.0, &sessions.1))?
    };
    if is_json { output::print_data(format!("{:#}\n", found.json()).as_bytes()) } else { found.print() }
        .map(|()| OK)
}

async fn compare(a: &Session, b: &Session) -> Outcome<RunComparison> {
    let (a, b) = (ComparedRun::from_session(a).await?, ComparedRun::from_session(b).await?);
    let walk = LaunchWalk::from_launches(&a.launches, &b.launches);
    let counts = ArgumentCounts::default();
    let mut arguments = ArgumentComparison { a: &a, b: &b, read: a.read_words().await?, counts };
    let mut accesses = AccessComparison::for_runs(&a, &b);
    let mut memory =
        MemoryComparison { a: &a, b: &b, before: None, after: None, counts: PageCounts::default() };
    let mut differences: Vec<FirstDifference> = walk.parting.iter().cloned().collect();
    let mut bundled = (0, 0);
    for &pair in &walk.pairs {
        differences.extend(code(pair));
        differences.extend(shape(pair));
        differences.extend(arguments.difference(pair));
        differences.extend(accesses.difference(pair));
        bundled.1 += u64::from(pair.0.is_bundled || pair.1.is_bundled);
        if pair.0.is_bundled && pair.1.is_bundled {
            bundled.0 += 1;
            memory.compare(pair).await?;
        }
    }
    differences.extend(memory.before.take().into_iter().chain(memory.after.take()));
    let launches = a.launches.len().max(b.launches.len()) as u64;
    let part = |name, compared, total, reason| AspectCoverage { name, compared, total, reason };
    let coverage = vec![
        part(
            "launches in order",
            walk.pairs.len() as u64,
            launches,
            "launches behind the place where the runs part",
        ),
        part(
            "words of arguments",
            arguments.counts.compared,
            arguments.counts.words,
            "addresses outside tensors, bytes of structs that the launch may not read",
        ),
        part(
            "launches with all accesses",
            accesses.compared,
            launches,
            "accesses are not recorded, or are those of some blocks",
        ),
        part("bundled launches", bundled.0, launches, "not bundled for replay in both captures"),
        part(
            "pages before launches",
            memory.counts.before,
            memory.counts.pages,
            "no tensor of an argument, or not read, or behind the first difference",
        ),
        part(
            "pages after launches",
            memory.counts.after,
            memory.counts.written,
            "they began with other content, or are behind the first difference",
        ),
    ];
    Ok(RunComparison { differences: firsts(differences), coverage })
}

/// The first difference of each aspect, in the order of launches.
fn firsts(mut differences: Vec<FirstDifference>) -> Vec<FirstDifference> {
    let place = |found: &FirstDifference| (found.launch.or(found.other_launch), found.aspect);
    differences.sort_by_key(place);
    let mut seen = Vec::new();
    differences.retain(|found| {
        let is_new = !seen.contains(&found.aspect);
        seen.push(found.aspect);
        is_new
    });
    differences
}

fn code((a, b): LaunchPair<'_>) -> Option<FirstDifference> {
    let detail = "the kernel of this name has other machine code".to_owned();
    (a.function_id != b.function_id).then(|| FirstDifference::for_pair(LaunchAspect::Code, a, b, detail))
}

fn shape((a, b): LaunchPair<'_>) -> Option<FirstDifference> {
    let detail = || format!("{}, in the other {}", a.shape, b.shape);
    (a.shape != b.shape).then(|| FirstDifference::for_pair(LaunchAspect::Shape, a, b, detail()))
}

impl RunComparison {
    /// A sentence about the first difference.
    fn verdict(&self) -> String {
        let Some(first) = self.differences.first() else {
            return "no difference in what could be compared.".to_owned();
        };
        format!("the runs differ first in their {}: {}", first.aspect.name(), first.text())
    }

    fn print(&self) -> Outcome<()> {
        let canvas = output::page();
        let verdict = wrap(&printable(&self.verdict()), canvas.width.unwrap_or(usize::MAX));
        output::print(&(canvas.paint.text(TextRole::Heading, &verdict) + "\n\n"))?;
        if self.differences.len() > 1 {
            output::print("First differences of other aspects:\n")?;
            for found in self.differences.iter().skip(1) {
                let text = format!("{}: {}", found.aspect.name(), found.text());
                output::print(&(wrap(&printable(&text), canvas.width.unwrap_or(usize::MAX)) + "\n"))?;
            }
            output::print("\n")?;
        }
        written(self.coverage_table().draw(&mut output::stdout(), canvas))
    }

    fn coverage_table(&self) -> TextTable {
        let rows = self.coverage.iter().map(|part| {
            let rest = if part.compared == part.total { "-" } else { part.reason };
            [part.name.to_owned(), grouped(part.compared.into()), grouped(part.total.into()), rest.to_owned()]
        });
        TextTable::of_text(["compared", "count", "total", "rest"], rows.collect())
            .numbers(&[1, 2])
            .whole(&[0])
    }

    fn json(&self) -> Value {
        let differences = self.differences.iter().map(|found| {
            json!({
                "aspect": found.aspect.name(), "launch": found.launch, "other_launch": found.other_launch,
                "kernel": found.kernel, "memory": found.object, "difference": found.detail,
                "line": found.line, "op": found.op,
            })
        });
        let coverage = self.coverage.iter().map(|part| {
            json!({"name": part.name, "compared": part.compared, "total": part.total, "rest": part.reason})
        });
        json!({
            "verdict": self.verdict(), "differences": differences.collect::<Vec<_>>(),
            "coverage": coverage.collect::<Vec<_>>(),
        })
    }
}
