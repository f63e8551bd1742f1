//! `stallmap redact`: a capture without secrets, and a summary of removed data.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use stallmap::redact::{self, RedactOptions};

use stallmap_console::args::share::{AlsoRemove, KeepArg, RedactArgs};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::explain::capture_failure;
use stallmap_console::output;
use stallmap_console::output::number::grouped;
use stallmap_console::output::progress::ProgressSpinner;

/// Writes the capture and prints a summary.
pub(super) fn run(args: &RedactArgs) -> Outcome {
    let options = RedactOptions {
        salt: args.salt.clone().map_or_else(random, String::into_bytes),
        also: args.also.iter().copied().map(also).collect(),
        keep: args.keep.iter().copied().map(keep).collect(),
        is_coarse: args.coarsen,
    };
    let tally = {
        let _progress = ProgressSpinner::start(format!("redacting {}", args.capture.display()));
        let redacted = args.capture.open().and_then(|reader| redact::redact(&reader, &options, &args.file));
        redacted.map_err(|error| capture_failure(&error))?
    };
    let text = list("Removed or replaced:", &tally.gone) + &list("Retained:", &tally.stays);
    output::print(&text)?;
    output::wrote(&args.file);
    Ok(OK)
}

fn list(title: &str, things: &BTreeMap<&'static str, u64>) -> String {
    let mut text = format!("{title}\n");
    for (what, count) in things.iter().filter(|(_, count)| **count > 0) {
        text.extend([format!("{:>14}  {what}\n", grouped((*count).into()))]);
    }
    text
}

/// A random salt.
fn random() -> Vec<u8> {
    (0..4_u64).flat_map(|index| RandomState::new().hash_one(index).to_le_bytes()).collect()
}

fn also(kind: AlsoRemove) -> redact::AlsoRedact {
    match kind {
        AlsoRemove::Symbols => redact::AlsoRedact::Symbols,
        AlsoRemove::Names => redact::AlsoRedact::Names,
        AlsoRemove::Files => redact::AlsoRedact::Files,
        AlsoRemove::Times => redact::AlsoRedact::Times,
    }
}

fn keep(kind: KeepArg) -> redact::KeptData {
    match kind {
        KeepArg::Arguments => redact::KeptData::Arguments,
        KeepArg::Details => redact::KeptData::Details,
        KeepArg::Parameters => redact::KeptData::Parameters,
        KeepArg::Contents => redact::KeptData::Contents,
    }
}
