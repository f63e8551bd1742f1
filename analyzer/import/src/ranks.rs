//! Ranks of one program: their numbers, their collectives and their clocks.

use std::path::Path;

use stallmap_console::output;
use stallmap_console::output::number::{counted, nanoseconds};
use stallmap_readers::trace::align::{ClockAlignment, align_clocks};
use stallmap_readers::trace::collective::find_collectives;
use stallmap_readers::trace::model::TraceModel;
use stallmap_readers::trace::rank_match::match_ranks;
use stallmap_schema::word::LossKind;

/// The rank that the name of a file has behind the last `rank`, as in `trace_rank-3.json.gz`.
pub(crate) fn rank_of_name(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let (_, behind) = name.rsplit_once("rank")?;
    let number = behind.trim_start_matches(['-', '_', '.', '=']);
    let end = number.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(number.len());
    number.get(..end)?.parse().ok()
}

/// The ranks of all files, if each has one and no two have the same.
pub(crate) fn distinct(ranks: &[Option<u32>]) -> Vec<u32> {
    let found: Vec<u32> = ranks.iter().copied().flatten().collect();
    let mut sorted = found.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() == ranks.len() && ranks.len() > 1 { found } else { Vec::new() }
}

/// Gives the process of a file that does not know its rank the one of the file's name.
pub(crate) fn with_rank(mut trace: TraceModel, rank: Option<u32>) -> TraceModel {
    if let ([process], Some(_)) = (trace.processes.as_mut_slice(), rank) {
        process.rank = process.rank.or(rank);
    }
    trace
}

/// Finds collectives, matches those of several ranks, and aligns the clocks of their files.
pub(crate) fn join(trace: &mut TraceModel) -> Option<ClockAlignment> {
    find_collectives(trace);
    if trace.processes.len() < 2 {
        return None;
    }
    let found = match_ranks(trace);
    let reason = "collectives that match none of another rank";
    trace.losses.add_many(LossKind::Source, reason, found.unmatched, None);
    let reason = "collectives of groups of ranks that the source does not name: not matched, and no clock follows them";
    trace.losses.add_many(LossKind::Source, reason, found.unnamed, None);
    let alignment = align_clocks(trace)?;
    let reason = "clocks of ranks that are not aligned: no collective of an aligned rank";
    trace.losses.add_many(LossKind::Source, reason, alignment.unaligned as u64, None);
    let reason = "clocks of ranks that were not recorded at the time of the first one, aligned by the order of collectives: \
                  these may be of other steps";
    trace.losses.add_many(LossKind::Source, reason, alignment.apart as u64, None);
    Some(alignment)
}

/// Reports an alignment.
pub(crate) fn say(alignment: &ClockAlignment) {
    let ClockAlignment { aligned, collectives, error_ns, .. } = alignment;
    if *aligned > 1 {
        let collectives = counted(*collectives as u64, "collective", "collectives");
        output::note(format_args!(
            "clocks of {aligned} ranks aligned on {collectives} or more each: 95 % of their ends agree within {}",
            nanoseconds(*error_ns as f64)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_ranks() {
        let rank = |name: &str| rank_of_name(Path::new(name));
        assert_eq!(rank("/a/rank-3/trace_rank12.json.gz"), Some(12));
        assert_eq!((rank("Rank_0.json"), rank("rank.json"), rank("r1.json")), (Some(0), None, None));
        assert_eq!(distinct(&[Some(1), Some(0)]), [1, 0]);
        assert_eq!((distinct(&[Some(1), Some(1)]), distinct(&[Some(1), None])), (vec![], vec![]));
    }
}
