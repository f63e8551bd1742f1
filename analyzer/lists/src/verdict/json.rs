//! The verdict for programs.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::phases::PhaseShares;
use super::{FindingRow, VerdictRows};

/// Version of the object's form. It grows when a field changes or goes.
const VERSION: u32 = 1;

/// One JSON object. Shares are parts of all samples.
pub(super) fn json(verdict: &VerdictRows, capture: &Path) -> String {
    let run = &verdict.run;
    let shares = verdict.shares.iter().map(|share| {
        json!({
            "kind": format!("{:?}", share.kind).to_lowercase(), "label": share.label, "type": share.detail,
            "waited_at": share.place, "share": share.part, "percent": share.percent,
        })
    });
    let findings = verdict.findings.iter().map(|found| {
        let mut finding = finding(found);
        finding.insert("alike".to_owned(), found.alike.into());
        Value::from(finding)
    });
    let losses = verdict.losses.iter();
    let losses = losses.map(|loss| json!({"count": loss.count, "kind": loss.kind, "reason": loss.reason}));
    let queries = verdict.sql.iter().map(|(query, sql)| (query.name.to_owned(), Value::from(sql.as_str())));
    let object = json!({
        "version": VERSION,
        "capture": capture.display().to_string(),
        "verdict": verdict.sentence,
        "run": {
            "program": run.script(), "started": run.started, "gpus": run.gpus, "ranks": run.ranks,
            "steps": run.steps, "step_launches": run.step_launches, "steps_found_by": run.found_by, "steps_confidence": run.confidence, "launches": run.launches, "sampled_launches": run.sampled_launches,
            "samples": run.samples, "time_ns": run.time_ns,
            "timed_launches": run.timed_launches, "measured_launches": run.measured_launches,
            "busy_share": verdict.phases.busy_share(),
        },
        "phases": phases(&verdict.phases),
        "shares": shares.collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "finding_count": verdict.findings.first().map_or(0, |finding| finding.found),
        "losses": losses.collect::<Vec<_>>(),
        "attributed_memory_share": verdict.attributed,
        "queries": queries.collect::<serde_json::Map<_, _>>(),
    });
    format!("{object:#}\n")
}

/// The phases of a program with a timeline. Shares are parts of the time of the steps.
fn phases(phases: &PhaseShares) -> Value {
    json!({
        "timed_steps": phases.steps, "step_ns": phases.step_ns, "slowest_ns": phases.slowest_ns,
        "slowest_step": phases.slowest_step, "setup_ns": phases.setup_ns, "setup_part": phases.setup_part,
        "setup_part_ns": phases.setup_part_ns, "end_ns": phases.end_ns,
        "shares": {
            "compute": phases.compute_share, "collective": phases.collective_share, "copy": phases.copy_share,
            "idle": phases.idle_share, "late_after_wait": phases.wait_share, "late_input": phases.input_share,
            "late_launch": phases.launch_share,
        },
    })
}

/// The fields of a finding.
pub(super) fn finding(finding: &FindingRow) -> Map<String, Value> {
    let fields = [
        ("number", finding.number.into()),
        ("finding", finding.class.as_str().into()),
        ("fact", finding.fact.as_deref().into()),
        ("sentence", finding.sentence.as_deref().into()),
        ("advice", finding.advice.as_deref().into()),
        ("line", finding.line.as_deref().into()),
        ("text", finding.text.as_deref().into()),
        ("tensor_id", finding.tensor_id.into()),
        ("saving_share", finding.saving_share.into()),
        ("saving_low_ns", finding.saving_low_ns.into()),
        ("saving_high_ns", finding.saving_high_ns.into()),
        ("fix_ns", finding.fix_ns.into()),
        ("pays_from", finding.pays_from.into()),
        ("also", finding.also.as_deref().into()),
        ("query", finding.query.as_str().into()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
