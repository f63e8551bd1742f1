//! Questions of the cookbook, run by number.

use stallmap::library::{self, Recipe};

use super::{Next, Shell};
use stallmap_console::exit::{Failure, Outcome, USAGE};
use stallmap_console::names::nearest;
use stallmap_console::output;
use stallmap_console::output::paint::Role;
use stallmap_console::output::table::Table;

/// `.examples` lists them. `.examples 3` prints the third and runs it, as does a part of its name.
pub(super) fn run(shell: &mut Shell, argument: &str) -> Outcome<Next> {
    if argument.is_empty() {
        return list(shell);
    }
    let recipe = find(argument)?;
    let paint = output::sheet().paint;
    let doc = recipe.doc().map(|line| paint.text(Role::Dim, line) + "\n").collect::<String>();
    let heading = paint.text(Role::Heading, recipe.question());
    shell.show(&format!("{heading}\n{doc}\n{}\n\n", recipe.sql()))?;
    let is_open = |name: &str| shell.session.captures().iter().any(|capture| capture.name == name);
    if recipe.needs().into_iter().all(is_open) {
        return shell.run(recipe.sql());
    }
    let named: Vec<String> = recipe.needs().iter().map(|name| format!("{name}=NAME.stallmap")).collect();
    let failure = Failure::message(USAGE, "this example reads several captures");
    Err(failure.hint(format!("open them under these names: stallmap sql {}", named.join(" "))))
}

/// Candidates for `.examples`.
pub(super) fn names() -> Vec<String> {
    library::cookbook().map(|recipe| recipe.name().to_owned()).collect()
}

fn list(shell: &Shell) -> Outcome<Next> {
    let rows = library::cookbook()
        .map(|recipe| [recipe.number.to_string(), recipe.name().to_owned(), recipe.question().to_owned()]);
    let table = Table::of_text(["no", "example", "question"], rows.collect()).numbers(&[0]).whole(&[1]);
    shell.draw(&table)?;
    output::note(".examples N prints one and runs it");
    Ok(Next::Line)
}

fn find(wanted: &str) -> Outcome<Recipe> {
    let mut all = library::cookbook();
    let by_number = wanted.parse::<usize>().ok();
    let is_wanted =
        |recipe: &Recipe| by_number.map_or(recipe.name() == wanted, |number| recipe.number == number);
    all.find(is_wanted).ok_or_else(|| {
        let names = names();
        let hint = nearest(wanted, names.iter().map(String::as_str))
            .map_or(".examples lists them".to_owned(), |name| format!("did you mean `{name}`?"));
        Failure::message(USAGE, format!("no example `{wanted}`")).hint(hint)
    })
}
