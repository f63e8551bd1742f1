//! `stallmap diff --over`: two captures, chosen by their labels.

use stallmap::location::CaptureLocation;
use stallmap_console::answer::fresh_rows;
use stallmap_console::args::diff::DiffArgs;
use stallmap_console::args::label::LabelCondition;
use stallmap_console::args::named::NamedCapture;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;
use stallmap_fleet::CaptureFleet;

use crate::trend::open::{open, say_skipped};

rows! {
    /// A capture that was chosen.
    #[derive(Clone, Debug)]
    struct ChosenCapture { capture: String }
}

/// The options of a comparison with its captures in place of the folders.
///
/// # Errors
/// Fails if a label chooses no capture, or both choose the same.
pub fn choose(context: &CommandContext, args: DiffArgs) -> Outcome<DiffArgs> {
    let fleet = open(context, &args.over, &[])?;
    say_skipped(fleet.found, &fleet.skipped);
    if args.base.is_empty() {
        return Err(CommandFailure::message(USAGE, "no label chooses the capture to compare with")
            .hint("for example `--base branch=main`".to_owned()));
    }
    let (base, base_location) = newest(&fleet, &args.base, None)?;
    let (head, head_location) = newest(&fleet, &args.head, Some(&base))?;
    output::note(format_args!("comparing `{head}` with `{base}`"));
    let capture = |path: CaptureLocation| NamedCapture { name: None, path };
    Ok(DiffArgs { captures: vec![capture(base_location), capture(head_location)], over: Vec::new(), ..args })
}

/// The newest capture with some labels which is another one than `base`.
fn newest(
    fleet: &CaptureFleet,
    labels: &[LabelCondition],
    base: Option<&str>,
) -> Outcome<(String, CaptureLocation)> {
    let sql = format!(
        "SELECT capture FROM fleet WHERE skipped IS NULL AND {} ORDER BY time DESC, capture DESC LIMIT 2",
        LabelCondition::all_sql(labels)
    );
    let found = ChosenCapture::read("captures", &runtime()?.block_on(fresh_rows(&fleet.session, &sql))?)?;
    let name = found.into_iter().map(|chosen| chosen.capture).find(|name| Some(name.as_str()) != base);
    let chosen = name.and_then(|name| Some((fleet.location(&name)?, name)));
    chosen.map(|(location, name)| (name, location)).ok_or_else(|| {
        let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
        let labels = if labels.is_empty() { "any label".to_owned() } else { labels.join(", ") };
        let other = if base.is_some() { "other " } else { "" };
        CommandFailure::message(USAGE, format!("no {other}capture has {labels}")).hint(
            "`stallmap sql --over FOLDER -c 'SELECT capture, labels FROM fleet'` lists labels".to_owned(),
        )
    })
}
