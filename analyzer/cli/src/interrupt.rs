//! Signals that end the program: what it was writing is removed first.

use std::io::IsTerminal as _;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use stallmap_console::args::StallmapCommand;
use stallmap_schema::capture::unfinished;

/// Removes unfinished files when the program is interrupted. In the shell Ctrl-C ends a statement.
pub(crate) fn watch(command: Option<&StallmapCommand>) {
    let signals: &[i32] = if is_shell(command) { &[SIGTERM] } else { &[SIGINT, SIGTERM] };
    // Without a watch the system's defaults apply, which leave the files.
    let Ok(mut signals) = Signals::new(signals) else { return };
    let end = move || {
        for signal in signals.forever() {
            let _no_file_is_begun = unfinished::remove_all();
            drop(emulate_default_handler(signal));
        }
    };
    drop(thread::Builder::new().name("signals".to_owned()).spawn(end));
}

fn is_shell(command: Option<&StallmapCommand>) -> bool {
    match command {
        Some(StallmapCommand::Sql(sql)) => {
            let has_statement = sql.query.is_some() || sql.file.is_some() || !sql.command.is_empty();
            !has_statement && std::io::stdin().is_terminal()
        }
        _ => false,
    }
}
