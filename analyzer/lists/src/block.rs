//! `stallmap block`: the accesses of one block of one launch, in order.

use stallmap::library::queries::block as queries;
use stallmap::session::Session;
use stallmap_console::absent;
use stallmap_console::answer::{asked, nothing, write_rows};
use stallmap_console::args::block::BlockArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{CommandFailure, OK, Outcome, USAGE};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::number::{counted, grouped};
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::table::TextTable;
use stallmap_console::output::value::NumberFormat;
use stallmap_console::output::{self, written};
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

/// Columns for programs only.
const DETAILS: &[&str] = &["lane_mask", "function_id", "pc", "sequence", "address", "tensor_id", "space"];
/// The condition that a warp adds to.
const BLOCK: &str = "block = ";

rows! {
    /// The launch, or the last one where the capture does not have it.
    #[derive(Clone, Debug)]
    struct BlockLaunch {
        kernel_id: u64,
        kernel: String,
        blocks: u64,
        warps: u64,
        accesses_of: Option<u64>,
        held_blocks: Option<u64>,
        nearest: Option<u64>,
    }
}

/// Prints the list, or its query.
pub fn run(context: &CommandContext, args: &BlockArgs) -> Outcome {
    let section = queries::ACCESSES;
    let sql = section.sql(&[("$top", args.rows.into()), ("$kernel", args.launch), ("$block", args.block)]);
    let block = format!("{BLOCK}{}", args.block);
    let sql =
        args.warp.map_or(sql.clone(), |warp| sql.replace(&block, &format!("{block} AND warp = {warp}")));
    if args.sql {
        return output::print(&sql).map(|()| OK);
    }
    let session = {
        let _progress = ProgressSpinner::start(format!("opening {}", args.capture.display()));
        context.open(&[(None, args.capture.clone())])?
    };
    let runtime = runtime()?;
    let launch = runtime.block_on(launch(&session, args))?;
    let rows = {
        let _progress = ProgressSpinner::for_work(session.work(), format!("querying {}", section.name));
        runtime.block_on(asked(&session, section, &sql))?
    };
    if let Some(format) = args.output.format().for_programs() {
        return write_rows(&rows, format).map(|()| OK);
    }
    let canvas = output::page();
    let title = format!("{}: {}", section.title(), launch.title(args));
    let mut heading = canvas.paint.text(TextRole::Heading, &title) + "\n";
    for line in section.doc() {
        heading += &(canvas.paint.text(TextRole::Dim, line) + "\n");
    }
    let table = TextTable::from_batches(&rows, NumberFormat::Report).map_err(arrow_failure)?;
    if table.rows() == 0 {
        let absence = match launch.absence(args) {
            None => runtime.block_on(absent::why(&session, &sql)),
            known => known,
        };
        return output::print(&(heading + &nothing(section, absence.as_deref()))).map(|()| OK);
    }
    output::print(&heading)?;
    let table = table.without(if output::is_wide() { &[] } else { DETAILS }).without_empty();
    written(table.draw(&mut output::stdout(), canvas))?;
    Ok(OK)
}

/// The launch with its block.
async fn launch(session: &Session, args: &BlockArgs) -> Outcome<BlockLaunch> {
    let section = queries::LAUNCH;
    let sql = section.sql(&[("$kernel", args.launch), ("$block", args.block)]);
    let found = BlockLaunch::read(section.name, &asked(session, section, &sql).await?)?;
    let unknown = |last: Option<&BlockLaunch>| {
        let hint = last.map_or_else(
            || "the capture has no launches".to_owned(),
            |last| {
                format!(
                    "the last launch is {}. `SELECT kernel_id, kernel FROM launch_context` lists all",
                    last.kernel_id
                )
            },
        );
        CommandFailure::message(USAGE, format!("launch {} is not in the capture", args.launch)).hint(hint)
    };
    let launch = found.first().filter(|launch| launch.kernel_id == args.launch);
    let launch = launch.ok_or_else(|| unknown(found.first()))?.clone();
    if args.block >= launch.blocks {
        let message = format!("block {} is not in the grid of launch {}", args.block, args.launch);
        let hint = format!("its {} blocks count from 0", grouped(launch.blocks.into()));
        return Err(CommandFailure::message(USAGE, message).hint(hint));
    }
    if let Some(warp) = args.warp.filter(|warp| u64::from(*warp) >= launch.warps) {
        let message = format!("warp {warp} is not in the blocks of launch {}", args.launch);
        let hint = format!("their {} count from 0", counted(launch.warps, "warp", "warps"));
        return Err(CommandFailure::message(USAGE, message).hint(hint));
    }
    Ok(launch)
}

impl BlockLaunch {
    /// The block in words.
    fn title(&self, args: &BlockArgs) -> String {
        let blocks = grouped(self.blocks.into());
        format!("launch {}, {}, block {} of {blocks}", self.kernel_id, self.kernel, args.block)
    }

    /// The reason that the block has no accesses here. None if it is not known.
    fn absence(&self, args: &BlockArgs) -> Option<String> {
        match (self.nearest, self.accesses_of) {
            // A block with requests of other warps.
            (Some(nearest), _) if nearest == args.block => None,
            (Some(nearest), _) => Some(format!(
                "the capture has accesses of {} of the {} blocks, the closest is block {nearest}",
                grouped(self.held_blocks.unwrap_or(0).into()),
                grouped(self.blocks.into()),
            )),
            (None, Some(model)) => {
                Some(format!("the accesses of launch {model}, of the same kind, stand for those of this one"))
            }
            (None, None) => None,
        }
    }
}
