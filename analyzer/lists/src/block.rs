//! `stallmap block`: the accesses of one block of one launch, in order.

use stallmap::library::queries::block as queries;
use stallmap_console::absent;
use stallmap_console::answer::{asked, nothing, write_rows};
use stallmap_console::args::block::BlockArgs;
use stallmap_console::context::{CommandContext, runtime};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::table::TextTable;
use stallmap_console::output::value::NumberFormat;
use stallmap_console::output::{self, written};

/// Columns for programs only.
const DETAILS: &[&str] =
    &["lane_mask", "function_id", "pc", "sequence", "address", "tensor_id", "space", "stride_bytes"];
/// The condition that a warp adds to.
const BLOCK: &str = "block = ";

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
    let rows = {
        let _progress = ProgressSpinner::for_work(session.work(), format!("querying {}", section.name));
        runtime.block_on(asked(&session, section, &sql))?
    };
    if let Some(format) = args.format().for_programs() {
        return write_rows(&rows, format).map(|()| OK);
    }
    let canvas = output::page();
    let mut heading = canvas.paint.text(TextRole::Heading, section.title()) + "\n";
    for line in section.doc() {
        heading += &(canvas.paint.text(TextRole::Dim, line) + "\n");
    }
    let table = TextTable::from_batches(&rows, NumberFormat::Report).map_err(arrow_failure)?;
    if table.rows() == 0 {
        let absence = runtime.block_on(absent::why(&session, &sql));
        return output::print(&(heading + &nothing(section, absence.as_deref()))).map(|()| OK);
    }
    output::print(&heading)?;
    let table = table.without(if output::is_wide() { &[] } else { DETAILS });
    written(table.draw(&mut output::stdout(), canvas))?;
    Ok(OK)
}
