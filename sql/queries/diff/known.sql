-- Facts
-- Properties of each capture: where it was recorded, which program, how complete. One row per capture.
WITH capture AS (
  SELECT DISTINCT capture FROM every.run
), program AS (
  SELECT capture, arguments, program
  FROM (SELECT *, row_number() OVER (PARTITION BY capture ORDER BY run_id) AS place FROM every.run)
  WHERE place = 1
), version AS (
  SELECT
    capture,
    array_to_string(array_sort(array_agg(DISTINCT driver_version)), ', ') AS driver,
    array_to_string(array_sort(array_agg(DISTINCT CAST(cuda_version AS VARCHAR))), ', ') AS cuda,
    array_to_string(array_sort(array_agg(DISTINCT torch_version)), ', ') AS torch,
    array_to_string(array_sort(array_agg(DISTINCT python_version)), ', ') AS python
  FROM every.run
  GROUP BY capture
), gpu AS (
  SELECT
    capture,
    array_to_string(array_sort(array_agg(DISTINCT name)), ', ') AS name,
    CAST(count(DISTINCT device_id) AS VARCHAR) AS devices,
    array_to_string(array_sort(array_agg(DISTINCT CAST(multiprocessor_count AS VARCHAR))), ', ')
      AS multiprocessors,
    array_to_string(array_sort(array_agg(DISTINCT CAST(sm_clock_khz / 1000 AS VARCHAR))), ', ')
      AS clock,
    array_to_string(array_sort(array_agg(DISTINCT CAST(memory_clock_khz / 1000 AS VARCHAR))), ', ')
      AS memory_clock
  FROM every.device
  GROUP BY capture
), cost AS (
  SELECT
    k.capture,
    array_to_string(array_sort(array_agg(DISTINCT CAST(CAST(k.period_cycles AS BIGINT) AS VARCHAR))), ', ')
      AS period,
    CASE
      WHEN bool_and(k.is_replay) THEN 'replays'
      WHEN bool_or(k.is_replay) THEN 'the program and replays'
      ELSE 'the program'
    END AS source,
    CASE WHEN bool_and(k.is_replay) THEN '1'
      ELSE CAST(count(DISTINCT CASE WHEN NOT k.is_replay THEN k.run_id END) AS VARCHAR) END AS runs,
    count(DISTINCT w.kernel_id) AS launches
  FROM every.cost_run k
  LEFT JOIN every.program_launch w ON w.capture = k.capture AND w.kernel_id = k.kernel_id
  GROUP BY k.capture
), timed AS (
  SELECT
    m.capture, count(*) AS launches, count(DISTINCT m.source) AS sources, min(m.source) AS source
  FROM every.measured_time m
  JOIN every.program_launch w ON w.capture = m.capture AND w.kernel_id = m.kernel_id
  GROUP BY m.capture
), drop AS (
  SELECT capture, sum(missing_count) AS lost, CAST(sum(taken_count) AS DOUBLE) AS taken
  FROM (SELECT DISTINCT capture, run_id, missing_count, taken_count FROM every.sample_time)
  GROUP BY capture
), access AS (
  SELECT
    s.capture, count(DISTINCT s.kernel_id) AS launches,
    CAST(coalesce(sum(CASE WHEN a.source = 'counts' THEN 0 ELSE s.lost_request_count END), 0) AS DOUBLE) AS lost,
    CAST(sum(s.request_count) AS DOUBLE) AS held
  FROM every.launch_run s
  LEFT JOIN every.launch_access a ON a.capture = s.capture AND a.kernel_id = s.kernel_id
  WHERE s.request_count IS NOT NULL
  GROUP BY s.capture
), launch AS (
  SELECT
    l.capture, count(w.kernel_id) AS launches, count(DISTINCT h.program_step) AS steps, count(DISTINCT w.run_id) AS ranks,
    count(DISTINCT l.function_id) AS kernels,
    count(DISTINCT CASE WHEN f.captures = $captures THEN l.function_id END) AS shared_kernels
  FROM every.launch l
  LEFT JOIN every.program_launch w ON w.capture = l.capture AND w.kernel_id = l.kernel_id
  LEFT JOIN every.launch_phase h ON h.capture = l.capture AND h.kernel_id = l.kernel_id
  LEFT JOIN (
    SELECT function_id, count(DISTINCT capture) AS captures FROM every.launch GROUP BY function_id
  ) f ON f.function_id = l.function_id
  GROUP BY l.capture
), repeats AS (
  -- Launches of one kernel with one grid from one Python stack repeat each other.
  SELECT capture, sum(launches) AS repeated
  FROM (
    SELECT l.capture, count(*) AS launches
    FROM every.launch l
    JOIN every.program_launch w ON w.capture = l.capture AND w.kernel_id = l.kernel_id
    GROUP BY l.capture, l.function_id, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.pystates_hash
  )
  WHERE launches > 1
  GROUP BY capture
), shape AS (
  SELECT
    t.capture, count(DISTINCT t.shape) AS shapes,
    count(DISTINCT CASE WHEN s.captures = $captures THEN t.shape END) AS shared_shapes
  FROM (SELECT capture, dtype || ' ' || shape(sizes, strides) AS shape FROM every.tensor) t
  JOIN (
    SELECT dtype || ' ' || shape(sizes, strides) AS shape, count(DISTINCT capture) AS captures
    FROM every.tensor
    GROUP BY 1
  ) s ON s.shape = t.shape
  GROUP BY t.capture
)
SELECT
  c.capture, p.program, p.arguments, v.driver, v.cuda, v.torch, v.python,
  g.name, g.devices, g.multiprocessors, g.clock, g.memory_clock,
  coalesce(k.period, 'none') AS period, coalesce(k.source, 'none') AS source, coalesce(k.runs, '0') AS runs,
  CASE
    WHEN k.launches >= l.launches THEN 'all'
    ELSE CAST(coalesce(k.launches, 0) AS VARCHAR) || ' of ' || CAST(l.launches AS VARCHAR)
  END AS sampled,
  CASE WHEN d.taken > 0 THEN CAST(round(100.0 * d.lost / d.taken, 1) AS VARCHAR) || ' %' ELSE '-' END AS dropped,
  CASE
    WHEN a.launches >= l.launches THEN 'of all launches'
    WHEN a.launches > 0 THEN 'of ' || CAST(a.launches AS VARCHAR) || ' of ' || CAST(l.launches AS VARCHAR) || ' launches'
    ELSE 'none'
  END AS accesses,
  CASE
    WHEN a.held + a.lost > 0 THEN CAST(round(100.0 * a.lost / (a.held + a.lost), 1) AS VARCHAR) || ' %'
    ELSE '-'
  END AS missed,
  CASE
    WHEN m.launches >= l.launches AND m.sources = 1 AND m.source = 'timeline' THEN 'measured'
    WHEN m.launches >= l.launches AND m.sources = 1 AND m.source = 'import' THEN 'measured by another profiler'
    WHEN m.launches >= l.launches THEN 'measured in replays'
    WHEN m.launches > 0 THEN 'partly measured'
    WHEN k.launches > 0 THEN 'estimated from samples'
    ELSE 'none'
  END AS timing,
  coalesce(l.launches, 0) AS launches, coalesce(l.steps, 0) AS steps, coalesce(l.ranks, 0) AS ranks, l.kernels, l.shared_kernels,
  coalesce(e.repeated, 0) AS repeated, h.shapes, h.shared_shapes
FROM capture c
LEFT JOIN program p ON p.capture = c.capture
LEFT JOIN version v ON v.capture = c.capture
LEFT JOIN gpu g ON g.capture = c.capture
LEFT JOIN cost k ON k.capture = c.capture
LEFT JOIN timed m ON m.capture = c.capture
LEFT JOIN drop d ON d.capture = c.capture
LEFT JOIN access a ON a.capture = c.capture
LEFT JOIN launch l ON l.capture = c.capture
LEFT JOIN repeats e ON e.capture = c.capture
LEFT JOIN shape h ON h.capture = c.capture
