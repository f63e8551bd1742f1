//! `stallmap pack` and `stallmap unpack`: a capture as a file and as a folder.

use std::path::Path;

use stallmap_schema::capture;
use stallmap_schema::capture::error::CaptureError;

use super::capture_failure;
use crate::args::{Pack, Unpack};
use crate::exit::{OK, Outcome};
use crate::output;
use crate::output::progress::Progress;

/// Makes a file of a folder.
pub(super) fn pack(args: &Pack) -> Outcome {
    turn(&args.folder, &args.file, capture::pack::pack)
}

/// Makes a folder of a file.
pub(super) fn unpack(args: &Unpack) -> Outcome {
    turn(&args.file, &args.folder, capture::pack::unpack)
}

fn turn(from: &Path, to: &Path, make: impl FnOnce(&Path, &Path) -> Result<(), CaptureError>) -> Outcome {
    {
        let _progress = Progress::start(format!("writing {}", to.display()));
        make(from, to).map_err(|error| capture_failure(&error))?;
    }
    output::note(format_args!("wrote {}", to.display()));
    Ok(OK)
}
