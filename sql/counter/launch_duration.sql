-- How long one launch takes by itself, from its replays.
CREATE VIEW launch_duration (
  -- The launch.
  kernel_id,
  -- Nanoseconds: without an instrument where a replay had none, while counters were measured otherwise.
  duration_ns,
  -- Mean time of replays without an instrument that left memory as the launch did, nanoseconds.
  native_ns,
  -- Mean time while counters were measured, nanoseconds.
  counted_ns
) AS
WITH native AS (
  SELECT p.kernel_id, avg(p.duration_ns) AS ns
  FROM replay p
  JOIN run r ON r.run_id = p.run_id
  WHERE r.instrument = 'native' AND p.result IN ('verified', 'unstable')
  GROUP BY p.kernel_id
), counted AS (
  SELECT kernel_id, value AS ns FROM kernel_counter WHERE metric = 'gpu__time_duration.sum'
)
SELECT
  coalesce(n.kernel_id, c.kernel_id),
  coalesce(n.ns, c.ns),
  n.ns,
  c.ns
FROM native n
FULL JOIN counted c ON c.kernel_id = n.kernel_id
