//! The rank of a process in a distributed program, from environment variables of its launcher.

/// A process's rank. Every number is smaller than `world_size`, where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessRank {
    /// The rank among all processes of the program.
    pub rank: u32,
    /// The rank among the processes of its host.
    pub local_rank: Option<u32>,
    /// Processes of the program.
    pub world_size: Option<u32>,
}

/// The variables of one launcher.
struct LauncherVariables {
    rank: &'static str,
    local_rank: &'static str,
    /// The first that is set counts.
    world_size: &'static [&'static str],
    /// A rank without a size is believed: no other program uses the name.
    is_own_name: bool,
    /// A variable that the rest depends on.
    needs: Option<&'static str>,
}

/// The innermost launcher first: `torchrun` runs under `mpirun` and `srun`, and MPI under `srun`.
const LAUNCHERS: [LauncherVariables; 6] = [
    LauncherVariables {
        rank: "RANK",
        local_rank: "LOCAL_RANK",
        world_size: &["WORLD_SIZE"],
        is_own_name: false,
        needs: None,
    },
    LauncherVariables {
        rank: "OMPI_COMM_WORLD_RANK",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        world_size: &["OMPI_COMM_WORLD_SIZE"],
        is_own_name: true,
        needs: None,
    },
    LauncherVariables {
        rank: "MV2_COMM_WORLD_RANK",
        local_rank: "MV2_COMM_WORLD_LOCAL_RANK",
        world_size: &["MV2_COMM_WORLD_SIZE"],
        is_own_name: true,
        needs: None,
    },
    LauncherVariables {
        rank: "PMI_RANK",
        local_rank: "MPI_LOCALRANKID",
        world_size: &["PMI_SIZE"],
        is_own_name: true,
        needs: None,
    },
    LauncherVariables {
        rank: "PMIX_RANK",
        local_rank: "PMIX_LOCAL_RANK",
        world_size: &["PMIX_SIZE"],
        is_own_name: true,
        needs: None,
    },
    // A batch script has SLURM_PROCID too and is not a rank: only a step of `srun` has a number.
    LauncherVariables {
        rank: "SLURM_PROCID",
        local_rank: "SLURM_LOCALID",
        world_size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        is_own_name: false,
        needs: Some("SLURM_STEP_ID"),
    },
];

/// Programs and modules that start ranks and are none themselves.
const AGENTS: [&str; 3] = ["torchrun", "torch.distributed.run", "torch.distributed.launch"];

impl ProcessRank {
    /// The rank from the environment, if its numbers agree. `variable` looks up a variable.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        LAUNCHERS.iter().find_map(|launcher| launcher.rank(&variable))
    }

    /// The rank of this process, whose command line is `arguments`.
    ///
    /// `torchrun` itself has the rank of its own launcher in its environment. It is one for several ranks and has none.
    pub fn of_process<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut words = arguments.into_iter();
        let first = words.next().unwrap_or_default();
        // The script or module that an interpreter runs comes behind its options.
        let script = words.find(|word| !word.starts_with('-')).unwrap_or_default();
        let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
        let is_agent = AGENTS.iter().any(|agent| [name(first), name(script)].contains(&(*agent).to_owned()));
        if is_agent {
            return None;
        }
        Self::from_environment(|name| std::env::var(name).ok())
    }
}

impl LauncherVariables {
    fn rank(&self, variable: &impl Fn(&str) -> Option<String>) -> Option<ProcessRank> {
        let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
        if self.needs.is_some_and(|name| variable(name).is_none_or(|value| value.is_empty())) {
            return None;
        }
        let rank = number(self.rank)?;
        let world_size = self.world_size.iter().find_map(|name| number(name));
        let is_consistent = world_size.map_or(self.is_own_name, |size| rank < size);
        let local_rank = number(self.local_rank).filter(|&local| world_size.is_none_or(|size| local < size));
        is_consistent.then_some(ProcessRank { rank, local_rank, world_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_of(variables: &[(&str, &str)]) -> Option<(u32, Option<u32>, Option<u32>)> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let rank = ProcessRank::from_environment(|name| find(name).map(|(_, value)| (*value).to_owned()))?;
        Some((rank.rank, rank.local_rank, rank.world_size))
    }

    #[test]
    fn every_launcher_is_understood() {
        let torchrun = [("RANK", "5"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "8")];
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
        ];
        let slurm =
            [("SLURM_PROCID", "2"), ("SLURM_LOCALID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_ID", "0")];
        assert_eq!(rank_of(&torchrun), Some((5, Some(1), Some(8))));
        assert_eq!(rank_of(&open_mpi), Some((3, Some(1), Some(4))));
        assert_eq!(rank_of(&slurm), Some((2, Some(0), Some(4))));
        let mvapich = [("MV2_COMM_WORLD_RANK", "1"), ("MV2_COMM_WORLD_SIZE", "2")];
        assert_eq!(rank_of(&mvapich), Some((1, None, Some(2))));
        let hydra = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0")];
        assert_eq!(rank_of(&hydra), Some((1, Some(0), Some(2))));
        assert_eq!(rank_of(&[("PMIX_RANK", "7")]), Some((7, None, None)));
        // The innermost launcher counts.
        assert_eq!(rank_of(&[&torchrun[..], &open_mpi, &slurm].concat()), Some((5, Some(1), Some(8))));
        assert_eq!(rank_of(&[&slurm[..], &open_mpi].concat()), Some((3, Some(1), Some(4))));
    }

    #[test]
    fn what_does_not_agree_is_not_a_rank() {
        assert_eq!(rank_of(&[]), None);
        assert_eq!(rank_of(&[("RANK", "2")]), None, "any program may use this name");
        assert_eq!(rank_of(&[("RANK", "2"), ("WORLD_SIZE", "2")]), None);
        assert_eq!(rank_of(&[("RANK", "two"), ("WORLD_SIZE", "2")]), None);
        assert_eq!(rank_of(&[("RANK", "-1"), ("WORLD_SIZE", "2")]), None);
        let far = [("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "9")];
        assert_eq!(rank_of(&far), Some((0, None, Some(2))));
        let batch_script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
        assert_eq!(rank_of(&batch_script), None);
    }

    #[test]
    fn the_agent_has_no_rank() {
        for line in [
            &["/usr/bin/python", "/opt/bin/torchrun", "--nproc-per-node", "2"][..],
            &["python", "-u", "-m", "torch.distributed.run", "train.py"],
            &["/opt/bin/torchrun", "train.py"],
        ] {
            assert_eq!(ProcessRank::of_process(line.iter().copied()), None);
        }
    }
}
