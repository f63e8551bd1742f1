-- One launch's duration when it runs alone, from its replays.
--
-- The two measures differ for launches of microseconds. A replay without an instrument is timed between two events,
-- which adds some 3 microseconds to the kernel. While counters are measured, the kernel may first have to fetch its
-- code.
CREATE VIEW launch_duration (
  kernel_id,
  -- Nanoseconds: of the kernel alone if counters were measured, otherwise between two events.
  duration_ns,
  -- Median time of replays without an instrument that left the same memory as the launch, nanoseconds, between two
  -- events.
  native_ns,
  -- Mean time while counters were measured, nanoseconds.
  counted_ns
) AS
WITH native AS (
  SELECT p.kernel_id, median(CAST(p.duration_ns AS DOUBLE)) AS ns
  FROM replay p
  JOIN run r ON r.run_id = p.run_id
  WHERE r.instrument = 'native' AND p.result IN ('verified', 'unstable')
  GROUP BY p.kernel_id
), counted AS (
  SELECT kernel_id, value AS ns FROM launch_counter WHERE metric = 'gpu__time_duration.sum'
)
SELECT
  coalesce(n.kernel_id, c.kernel_id),
  coalesce(c.ns, n.ns),
  n.ns,
  c.ns
FROM native n
FULL JOIN counted c ON c.kernel_id = n.kernel_id
