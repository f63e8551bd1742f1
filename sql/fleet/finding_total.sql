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
  -- GPU time that `samples` represent, nanoseconds.
  time_ns
) AS
SELECT
  finding, kernel, line, op, count(DISTINCT capture), sum(samples), sum(saving_samples), sum(time_ns)
FROM finding
GROUP BY finding, kernel, line, op
