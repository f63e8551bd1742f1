-- One launch's cost and the sampling run that provides it: measures never mix.
--
-- Rule: sampling runs of the program come first. Without one, each launch takes its newest sampling run of replays in
-- which a repeat left the same memory as the launch. Launches differ in period, and replays differ in repeats. Samples
-- are scaled to one execution of the launch at the smallest period in use, which makes launches comparable. Several
-- sampling runs of a program count with their mean.
CREATE VIEW cost_run (
  -- The launch.
  kernel_id,
  -- The run.
  run_id,
  -- True if the run replayed the launch.
  is_replay,
  -- Executions that its samples sum over.
  repeats,
  -- Weight of one sample of the run: 1 in the one run of the program with one period.
  scale,
  -- GPU cycles between two samples of a multiprocessor. Null if unknown.
  period_cycles,
  -- Runs that sampled the launch and count: of replays, one.
  run_count
) AS
WITH placed AS (
  SELECT
    *,
    bool_or(NOT is_replay) OVER () AS is_program_sampled,
    row_number() OVER (PARTITION BY kernel_id, is_replay ORDER BY started_ns DESC, run_id DESC) AS age
  FROM sampled_launch
), used AS (
  SELECT
    kernel_id, run_id, is_replay, repeats, CAST(period_cycles AS DOUBLE) AS period_cycles,
    count(*) OVER (PARTITION BY kernel_id) AS run_count
  FROM placed
  WHERE NOT is_replay OR NOT is_program_sampled AND age = 1
)
SELECT
  kernel_id, run_id, is_replay, repeats,
  coalesce(period_cycles / min(period_cycles) OVER (), 1.0) / repeats / run_count, period_cycles, run_count
FROM used
