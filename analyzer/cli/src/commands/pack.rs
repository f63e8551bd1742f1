//! `stallmap pack` and `stallmap unpack`: a capture as a file and as a folder, complete or in part.

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::loss::Loss;
use stallmap_write::CaptureForm;
use stallmap_write::pack;
use stallmap_write::source::pack_with_sources;
use stallmap_write::subset::{self as subset, LaunchRanges, OptionalPart, REASON, SubsetSelection};

use stallmap_console::args::share::{DataKind, PackArgs, UnpackArgs};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::explain::capture_failure;
use stallmap_console::names::nearest;
use stallmap_console::output;
use stallmap_console::output::number::grouped;
use stallmap_console::output::progress::ProgressSpinner;

/// Writes a file from a capture, or from a part of one.
pub(super) fn pack(args: &PackArgs) -> Outcome {
    let lost = {
        let _progress = ProgressSpinner::start(format!("writing {}", args.file.display()));
        write(args)?
    };
    for loss in lost {
        let what = loss.detail.unwrap_or_default();
        output::note(format_args!(
            "left out of run {}: {what} ({})",
            loss.run_id.0,
            grouped(loss.lost_count.into())
        ));
    }
    output::wrote(&args.file);
    Ok(OK)
}

/// Writes the file. Returns the omitted data.
fn write(args: &PackArgs) -> Outcome<Vec<Loss>> {
    let fail = |error: CaptureError| capture_failure(&error);
    let reader = args.capture.open().map_err(fail)?;
    if let Some(root) = &args.root {
        let (lines, texts) = pack_with_sources(&reader, root, &args.file).map_err(fail)?;
        let count = |count: usize| grouped(i128::try_from(count).unwrap_or(i128::MAX));
        output::note(format_args!("text of {} of {} source lines", count(texts), count(lines)));
        return Ok(Vec::new());
    }
    let selection = selection(args, &reader)?;
    if selection == SubsetSelection::default() {
        pack::pack(&reader, &args.file).map_err(fail)?;
        return Ok(Vec::new());
    }
    subset::pack_part(&reader, &selection, &args.file, CaptureForm::File).map_err(fail)?;
    let written = CaptureReader::open(&args.file).map_err(fail)?;
    let mut losses = written.read_rows::<Loss>().map_err(fail)?;
    losses.retain(|loss| loss.reason == REASON);
    Ok(losses)
}

fn selection(args: &PackArgs, reader: &CaptureReader) -> Outcome<SubsetSelection> {
    let tables = || reader.tables().iter().map(|table| table.name.as_str());
    if let Some(unknown) = args.only.iter().find(|name| tables().all(|table| table != *name)) {
        let hint = nearest(unknown, tables()).map(|name| format!("did you mean `{name}`?"));
        return Err(
            CommandFailure::message(USAGE, format!("the capture has no table `{unknown}`")).hint(hint)
        );
    }
    let launches = if args.launches.is_empty() { None } else { Some(args.launches.as_slice()) };
    let launches = launches.map(|wanted| picked(wanted, reader)).transpose()?;
    Ok(SubsetSelection {
        without: args.without.iter().copied().map(part).collect(),
        only: args.only.iter().cloned().collect(),
        launches,
    })
}

fn picked(wanted: &[LaunchRanges], reader: &CaptureReader) -> Outcome<std::collections::BTreeSet<u64>> {
    let picks = |kernel_id: KernelId, name: &str, demangled: &str| {
        wanted.iter().any(|launches| match launches {
            LaunchRanges::Ids(ids) => ids.contains(&kernel_id.0),
            LaunchRanges::Kernel(regex) => regex.is_match(demangled) || regex.is_match(name),
        })
    };
    let launches = subset::launches_where(reader, picks).map_err(|error| capture_failure(&error))?;
    if launches.is_empty() {
        let hint = "`stallmap top kernels` lists the kernels, the table `launch` each kernel_id".to_owned();
        return Err(CommandFailure::message(USAGE, "--launches picks no launch").hint(hint));
    }
    Ok(launches)
}

fn part(kind: DataKind) -> OptionalPart {
    match kind {
        DataKind::Accesses => OptionalPart::Accesses,
        DataKind::Bundles => OptionalPart::Bundles,
        DataKind::Samples => OptionalPart::Samples,
        DataKind::Counters => OptionalPart::Counters,
        DataKind::Code => OptionalPart::Code,
        DataKind::Parameters => OptionalPart::Parameters,
    }
}

/// Writes a folder from a file.
pub(super) fn unpack(args: &UnpackArgs) -> Outcome {
    {
        let _progress = ProgressSpinner::start(format!("writing {}", args.folder.display()));
        let opened = args.file.open();
        let unpacked = opened.and_then(|reader| pack::unpack(&reader, &args.folder));
        unpacked.map_err(|error| capture_failure(&error))?;
    }
    output::wrote(&args.folder);
    Ok(OK)
}
