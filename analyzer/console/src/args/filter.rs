//! The options that choose launches, for every command with rows.

use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::complete;

/// Names of the launches that a command is about. All of them have to match.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filters")]
pub struct FilterArgs {
    /// Only launches of this kernel: its name, a part of it, a regular expression, or its function_id
    #[arg(short, long, value_name = "KERNEL", add = ArgValueCandidates::new(complete::kernels))]
    pub kernel: Option<String>,
    /// Only launches of this Python line, with those of its gradient
    #[arg(long, value_name = "[FILE]:LINE")]
    pub line: Option<String>,
    /// Only launches of this op: its name with or without namespace and overload, or a part of it
    #[arg(long, value_name = "OP")]
    pub op: Option<String>,
}

impl FilterArgs {
    /// True if it chooses all launches.
    pub const fn is_empty(&self) -> bool {
        self.kernel.is_none() && self.line.is_none() && self.op.is_none()
    }
}
