//! The options that choose launches, for every command with rows.

use clap::{Args, ValueEnum};
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
    /// Only launches of this phase of the program: its steps, set-up or all [default: all]
    #[arg(long, value_enum, value_name = "PHASE")]
    pub phase: Option<ProgramPhase>,
}

/// Phases of a program. A program that repeats nothing has one, which counts as its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgramPhase {
    /// The steps, or all of a program that repeats nothing
    Steady,
    /// Everything before the steps, and trials of tuners
    Setup,
    /// Everything behind the last step
    End,
    /// Everything
    All,
}

impl ProgramPhase {
    /// Words of `launch_phase.program_phase`, as SQL writes them in a list.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Steady => "'steady', 'once'",
            Self::Setup => "'setup'",
            Self::End => "'end'",
            Self::All => "'setup', 'steady', 'end', 'once', 'apart'",
        }
    }

    /// The condition on the columns of `finding` for those about it. Those outside of steps are about the phases that launch
    /// their kernel.
    pub fn findings(self) -> String {
        match self {
            Self::Steady => "is_in_steps".to_owned(),
            Self::All => "true".to_owned(),
            Self::Setup => format!(
                "NOT is_in_steps AND (({}) OR NOT ({}))",
                self.launches_of_findings(),
                Self::End.launches_of_findings()
            ),
            Self::End => format!("NOT is_in_steps AND ({})", self.launches_of_findings()),
        }
    }

    /// The condition for findings whose kernel, line and op are launched in it. One that is launched nowhere is about set-up.
    fn launches_of_findings(self) -> String {
        let launched = |column: &str| {
            format!(
                "SELECT c.{column} FROM launch_context c JOIN launch_phase h ON h.kernel_id = c.kernel_id \
                 WHERE h.program_phase IN ({}) AND c.{column} IS NOT NULL",
                self.words()
            )
        };
        format!(
            "coalesce(kernel, line, op) IS NOT NULL AND (kernel IS NULL OR kernel IN ({})) AND (line IS NULL OR \
             line IN ({}) OR replace(line, ' (grad)', '') IN ({})) AND (op IS NULL OR op IN ({}))",
            launched("kernel"),
            launched("line"),
            launched("forward_line"),
            launched("op")
        )
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Setup => "setup",
            Self::End => "end",
            Self::All => "all",
        }
    }
}

impl FilterArgs {
    /// The phase, unless it is all of them.
    pub const fn chosen_phase(&self) -> Option<ProgramPhase> {
        match self.phase {
            Some(ProgramPhase::All) | None => None,
            phase => phase,
        }
    }

    /// True if it chooses all launches.
    pub const fn is_empty(&self) -> bool {
        self.kernel.is_none() && self.line.is_none() && self.op.is_none() && self.chosen_phase().is_none()
    }
}
