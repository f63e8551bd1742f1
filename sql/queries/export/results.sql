-- Findings for code scanning
-- One row per finding, largest saving first. `is_significant` is false where the saving is within twice the Poisson
-- error of its samples.
SELECT
  f.finding, f.subject, f.sentence, f.advice, f.kernel, f.line, f.op, f.samples, f.share, f.saving_samples,
  f.saving_share, f.saving_low_ns, f.saving_high_ns, f.time_ns, f.found_by, f.query,
  f.saving_samples > 2.0 * sqrt(f.samples) AND f.saving_samples > 0.0 AS is_significant
FROM finding f
ORDER BY f.saving_samples DESC, f.samples DESC, f.finding, f.subject
