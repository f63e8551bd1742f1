-- One launch's cost and the sampling run that provides it: measures of one launch never mix.
--
-- Rule: the sampling runs of the program count, or the newest sampling run of replays in which a repeat left the same
-- memory as the launch. `--cost-from` chooses where a launch has both. auto, the default: replays, if the program has
-- fewer than 100 samples of the launch and they have four times as many or more. A share of 100 samples is known to 10 %
-- or worse, and four times as many halve the error. program: the program alone. replays: replays where there are any.
-- Launches differ in period, and replays differ in repeats. Samples are scaled to one execution of the launch at the
-- smallest period of the program in use, without one at that of replays, which makes launches comparable. Several
-- sampling runs of a program count with their mean.
CREATE VIEW cost_run (
  kernel_id,
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
WITH replayed AS (
  SELECT DISTINCT kernel_id FROM sampled_launch WHERE is_replay
), counted AS (
  -- Only launches that replays sampled have a choice.
  SELECT s.run_id, s.kernel_id, sum(s.samples) AS samples
  FROM launch_stall s
  JOIN replayed r ON r.kernel_id = s.kernel_id
  GROUP BY s.run_id, s.kernel_id
), placed AS (
  SELECT
    l.*, CAST(coalesce(c.samples, 0) AS DOUBLE) AS samples,
    row_number() OVER (PARTITION BY l.kernel_id, l.is_replay ORDER BY l.started_ns DESC, l.run_id DESC) AS age
  FROM sampled_launch l
  LEFT JOIN counted c ON c.run_id = l.run_id AND c.kernel_id = l.kernel_id
), compared AS (
  SELECT
    *,
    sum(CASE WHEN NOT is_replay THEN samples END) OVER (PARTITION BY kernel_id) AS own_samples,
    max(CASE WHEN is_replay AND age = 1 THEN samples END) OVER (PARTITION BY kernel_id) AS replay_samples
  FROM placed
), used AS (
  SELECT
    kernel_id, run_id, is_replay, repeats, CAST(period_cycles AS DOUBLE) AS period_cycles,
    count(*) OVER (PARTITION BY kernel_id) AS run_count
  FROM compared
  WHERE (NOT is_replay OR age = 1) AND is_replay = CASE cost_from()
    WHEN 'program' THEN false
    WHEN 'replays' THEN replay_samples IS NOT NULL
    ELSE replay_samples IS NOT NULL
      AND (own_samples IS NULL OR own_samples < 100.0 AND replay_samples >= 4.0 * greatest(own_samples, 1.0))
  END
)
SELECT
  kernel_id, run_id, is_replay, repeats,
  coalesce(
    period_cycles
      / coalesce(min(CASE WHEN NOT is_replay THEN period_cycles END) OVER (), min(period_cycles) OVER ()),
    1.0
  ) / repeats / run_count,
  period_cycles, run_count
FROM used
