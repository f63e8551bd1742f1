//! `stallmap block`

use clap::Args;
use stallmap::location::CaptureLocation;

use super::examples;
use super::list::ListOutput;

/// `stallmap block`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap block step.stallmap 1 0", "the accesses of block 0 of launch 1, in order, with elements of tensors"),
    ("stallmap block step.stallmap 1 12 --warp 3", "those of its warp 3"),
    ("stallmap block step.stallmap 1 0 --format csv", "for programs, with addresses and lane masks"),
]))]
pub struct BlockArgs {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// The launch: its kernel_id
    #[arg(value_name = "LAUNCH")]
    pub launch: u64,
    /// The block: x + grid_x * (y + grid_y * z)
    #[arg(value_name = "BLOCK")]
    pub block: u64,
    /// Only this warp of the block
    #[arg(long, value_name = "N")]
    pub warp: Option<u16>,
    /// Requests to show (the first)
    #[arg(short = 'n', long = "top", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Format of the rows.
    #[command(flatten)]
    pub output: ListOutput,
    /// Print the query instead of running it
    #[arg(long)]
    pub sql: bool,
}
