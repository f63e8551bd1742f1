//! Questions of the cookbook, run by number.

use stallmap::library::{self, QueryRecipe};

use super::{ShellStep, SqlShell};
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::names::nearest;
use stallmap_console::output;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::table::TextTable;

/// `.examples` lists them. `.examples 3` prints the third and runs it, as does a part of its name.
pub(super) fn run(shell: &mut SqlShell, argument: &str) -> Outcome<ShellStep> {
    if argument.is_empty() {
        return list(shell);
    }
    let recipe = find(argument)?;
    let paint = output::sheet().paint;
    let doc = recipe.doc().map(|line| paint.text(TextRole::Dim, line) + "\n").collect::<String>();
    let heading = paint.text(TextRole::Heading, recipe.question());
    shell.show(&format!("{heading}\n{doc}\n{}\n\n", recipe.sql()))?;
    let is_open = |name: &str| shell.session.captures().iter().any(|capture| capture.name == name);
    if recipe.needs().into_iter().all(is_open) {
        return shell.run(recipe.sql());
    }
    let named: Vec<String> = recipe.needs().iter().map(|name| format!("{name}=NAME.stallmap")).collect();
    let failure = CommandFailure::message(USAGE, "this example reads several captures");
    Err(failure.hint(format!("open them under these names: stallmap sql {}", named.join(" "))))
}

/// Candidates for `.examples`.
pub(super) fn names() -> Vec<String> {
    library::cookbook().map(|recipe| recipe.name().to_owned()).collect()
}

fn list(shell: &SqlShell) -> Outcome<ShellStep> {
    let rows = library::cookbook()
        .map(|recipe| [recipe.number.to_string(), recipe.name().to_owned(), recipe.question().to_owned()]);
    let table = TextTable::of_text(["no", "example", "question"], rows.collect()).numbers(&[0]).whole(&[1]);
    shell.draw(&table)?;
    output::note(".examples N prints one and runs it");
    Ok(ShellStep::Line)
}

fn find(wanted: &str) -> Outcome<QueryRecipe> {
    let mut all = library::cookbook();
    let by_number = wanted.parse::<usize>().ok();
    let is_wanted =
        |recipe: &QueryRecipe| by_number.map_or(recipe.name() == wanted, |number| recipe.number == number);
    all.find(is_wanted).ok_or_else(|| {
        let names = names();
        let hint = nearest(wanted, names.iter().map(String::as_str))
            .map_or(".examples lists them".to_owned(), |name| format!("did you mean `{name}`?"));
        CommandFailure::message(USAGE, format!("no example `{wanted}`")).hint(hint)
    })
}
