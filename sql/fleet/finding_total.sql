-- One kind of inefficiency at one place of the program, over all captures of a fleet.
CREATE VIEW finding_total (
  -- The kind of inefficiency, as in `finding`.
  finding,
  -- The kernel. Null for several.
  kernel,
  -- The Python line. Null for several.
  line,
  -- The op. Null for several.
  op,
  -- Captures that have it.
  capture_count,
  -- Samples of its cost.
  samples,
  saving_samples,
  -- Least time that a fix saves in a step of each capture, nanoseconds.
  saving_low_ns,
  -- Most time that a fix saves.
  saving_high_ns,
  -- True if it may make results wrong.
  is_wrong,
  -- GPU time that `samples` represent, nanoseconds.
  time_ns
) AS
SELECT
  finding, kernel, line, op, count(DISTINCT capture), sum(samples), sum(saving_samples), sum(saving_low_ns),
  sum(saving_high_ns), bool_or(found_by = 'finding_wrong_access'), sum(time_ns)
FROM finding
GROUP BY finding, kernel, line, op
