//! Units of metrics. A report has none: ncu derives them from the names when it prints.

/// Units of metrics with a name of their own.
const NAMED: [(&str, &str); 12] = [
    ("gpu__time_duration", "nanosecond"),
    ("launch__registers_per_thread", "register/thread"),
    ("launch__shared_mem_per_block", "byte/block"),
    ("launch__shared_mem_config_size", "byte"),
    ("launch__persisting_l2_cache_size", "byte"),
    ("launch__block_dim_", "block"),
    ("launch__occupancy_limit_", "block"),
    ("launch__cluster_max_potential_size", "block"),
    ("launch__cluster_max_active", "cluster"),
    ("launch__thread_count", "thread"),
    ("launch__sm_count", "SM"),
    ("profiler__pmsampler_interval_time", "nanosecond"),
];

/// Words of names that say what is counted, with the unit.
const COUNTED: [(&str, &str); 5] = [
    ("cycles", "cycle"),
    ("sectors", "sector"),
    ("inst", "inst"),
    ("bytes", "byte"),
    ("requests", "request"),
];

/// The unit of a metric as CUPTI and a page of ncu name it. Empty for a number without a unit, and for a name that no
/// rule knows.
pub(super) fn from_name(name: &str) -> String {
    // Some sections put their own name in front.
    let counter = name.find("__").map_or(name, |at| {
        let begin = name.get(..at).and_then(|front| front.rfind('.')).map_or(0, |dot| dot + 1);
        name.get(begin..).unwrap_or(name)
    });
    if let Some((_, unit)) = NAMED.iter().find(|(start, _)| counter.starts_with(start)) {
        return (*unit).to_owned();
    }
    let (base, rest) = counter.split_once('.').unwrap_or((counter, ""));
    let rollup = rest.rsplit('.').next().unwrap_or(rest);
    if rest.split('.').any(|part| part.starts_with("pct")) || base.ends_with("_pct") {
        return "percent".to_owned();
    }
    if matches!(rollup, "ratio" | "max_rate") {
        return if base.contains("_bytes_per_sector_") { "byte/sector" } else { "" }.to_owned();
    }
    let Some(unit) = counted(base) else { return String::new() };
    match rollup {
        "per_second" if unit == "cycle" => "hz".to_owned(),
        "per_second" => format!("{unit}/s"),
        "peak_sustained" | "per_cycle_active" | "per_cycle_elapsed" => {
            if unit == "cycle" {
                String::new()
            } else {
                format!("{unit}/cycle")
            }
        }
        _ => unit.to_owned(),
    }
}

/// The unit that a counter counts in.
fn counted(base: &str) -> Option<&'static str> {
    let (part, rest) = base.split_once("__").unwrap_or(("sm", base));
    let is_plain = base.contains("__") || base.contains("inst_executed");
    let is_odd = matches!(part, "derived" | "device" | "launch" | "profiler") || base.contains("pcsamp");
    let is_other =
        base.contains("_per_") || base.contains("cache_requests") && part != "gcc" || base.ends_with("_type");
    if !is_plain || is_odd || is_other {
        return None;
    }
    let unit = |word: &str| COUNTED.iter().find(|(name, _)| *name == word).map(|(_, unit)| *unit);
    let unit = rest.split('_').find_map(unit)?;
    let is_known = unit != "request" || matches!(part, "gcc" | "idc" | "l1tex" | "lts");
    is_known.then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::from_name;

    #[test]
    fn names_decide_units() {
        for (name, unit) in [
            ("dram__bytes_read.sum", "byte"),
            ("dram__bytes_read.sum.per_second", "byte/s"),
            ("dram__bytes.avg.peak_sustained", "byte/cycle"),
            ("gpc__cycles_elapsed.avg.per_second", "hz"),
            ("gpu__time_duration.sum", "nanosecond"),
            ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "percent"),
            ("TPC.TriageCompute.sm__cycles_active.avg", "cycle"),
            ("inst_executed", "inst"),
            ("launch__registers_per_thread", "register/thread"),
            ("launch__waves_per_multiprocessor", ""),
            ("é.__x", ""),
        ] {
            assert_eq!(from_name(name), unit, "{name}");
        }
    }
}
