//! Options that a command does not have: the message names the commands that have them.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Error, Parser as _};
use stallmap_console::args::CliArgs;

/// The command line, or the end of the process with a message.
pub(crate) fn parsed(arguments: Vec<OsString>) -> CliArgs {
    CliArgs::try_parse_from(arguments).unwrap_or_else(|error| hinted(error).exit())
}

/// An error about an unknown option with the commands that have the option as a tip.
fn hinted(mut error: Error) -> Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = option.split(['=', ' ']).next().unwrap_or_default();
    let commands = commands_with(name);
    if error.kind() == ErrorKind::UnknownArgument && !commands.is_empty() {
        let tip = format!("{name} is an option of {}", commands.join(", "));
        // The usual tip is an option with a similar name.
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The commands that have an option, such as `--kernel` or `-k`.
fn commands_with(option: &str) -> Vec<String> {
    let has = |command: &&clap::Command| {
        command.get_arguments().any(|argument| {
            let long = option.strip_prefix("--");
            let short = option.strip_prefix('-').filter(|short| short.chars().count() == 1);
            long.is_some_and(|long| {
                argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long))
            }) || short
                .is_some_and(|short| argument.get_short().is_some_and(|found| short.starts_with(found)))
        })
    };
    CliArgs::command().get_subcommands().filter(has).map(|command| command.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_is_one_of_other_commands() {
        let message_of = |line: &str| {
            let error = CliArgs::try_parse_from(line.split(' ')).map(|_| ()).unwrap_err();
            hinted(error).to_string()
        };
        let text = message_of("stallmap info a.stallmap --kernel x");
        assert!(text.contains("--kernel is an option of report, why, top, tree, forest, source"), "{text}");
        let text = message_of("stallmap check -k x");
        assert!(text.contains("-k is an option of report, why, top"), "{text}");
        assert!(!message_of("stallmap info a.stallmap --nothing").contains("is an option of"));
    }
}
