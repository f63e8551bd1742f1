-- One launch's cost: the sampling run that it is taken from, so that no answer mixes measures.
--
-- The rule: where the capture has sampling runs of the program, those. Otherwise of each launch its newest sampling run
-- of replays in which a repeat did to memory what the launch did. Launches differ in period, and replays in repeats:
-- samples are scaled to one execution of the launch at the smallest period in use, so that launches compare.
CREATE VIEW cost_run (
  -- The launch.
  kernel_id,
  -- The run.
  run_id,
  -- Whether the run replayed the launch.
  is_replay,
  -- Times that its samples are the sum of.
  repeats,
  -- What one sample of the run counts as: 1 in runs of the program with one period.
  scale,
  -- GPU cycles between two samples of a multiprocessor; null where they are not known.
  period_cycles
) AS
WITH placed AS (
  SELECT
    *,
    bool_or(NOT is_replay) OVER () AS is_program_sampled,
    row_number() OVER (PARTITION BY kernel_id, is_replay ORDER BY started_ns DESC, run_id DESC) AS age
  FROM sampled_launch
), used AS (
  SELECT kernel_id, run_id, is_replay, repeats, CAST(period_cycles AS DOUBLE) AS period_cycles
  FROM placed
  WHERE NOT is_replay OR NOT is_program_sampled AND age = 1
)
SELECT
  kernel_id, run_id, is_replay, repeats,
  coalesce(period_cycles / min(period_cycles) OVER (), 1.0) / repeats, period_cycles
FROM used
