-- Run
-- The program, its GPUs, its launches without trials of tuners, and their GPU time. timed_launches: launches with a time. measured_launches: launches whose time was
-- measured, not estimated. steps: those of the process with most of them. step_launches:
-- launches of one step. phase_launches: those of some phases of the program. found_by: evidence of the steps. confidence: its sureness.
-- costliest: the kernel with most of their time. rank: that of a capture of one rank of several.
WITH process_step AS (
  SELECT run_id, count(DISTINCT program_step) AS steps, count(program_step) AS launches, max(found_by) AS found_by,
    max(confidence) AS confidence
  FROM launch_phase
  GROUP BY run_id
), stepped AS (
  SELECT
    max(steps) AS steps, first_value(found_by ORDER BY steps DESC, run_id) AS found_by,
    first_value(launches ORDER BY steps DESC, run_id) AS launches,
    first_value(confidence ORDER BY steps DESC, run_id) AS confidence
  FROM process_step
), cost AS (
  SELECT
    sum(c.samples) AS samples, sum(c.memory_samples) AS memory_samples, sum(c.time_ns) AS time_ns,
    sum(CASE WHEN p.program_phase IN ($phases) THEN c.time_ns END) AS phase_ns
  FROM sample_cost c
  LEFT JOIN launch_phase p ON p.kernel_id = c.kernel_id
), kernel AS (
  SELECT l.function_id, sum(c.time_ns) AS time_ns
  FROM sample_cost c
  JOIN launch_phase p ON p.kernel_id = c.kernel_id
  JOIN launch l ON l.kernel_id = c.kernel_id
  WHERE p.program_phase IN ($phases)
  GROUP BY l.function_id
)
SELECT
  r.program, r.arguments, CAST(date_trunc('second', to_timestamp_nanos(r.started_ns)) AS VARCHAR) AS started,
  (SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT DISTINCT name FROM device)) AS gpus,
  (SELECT count(DISTINCT rank) FROM run) AS ranks,
  (SELECT CASE WHEN count(DISTINCT rank) = 1 AND max(world_size) > 1 THEN max(rank) END FROM run) AS rank,
  (SELECT max(world_size) FROM run) AS world_size,
  coalesce(s.steps, 0) AS steps, CAST(s.launches AS DOUBLE) / nullif(s.steps, 0) AS step_launches,
  coalesce(s.found_by, 'none') AS found_by, s.confidence,
  (SELECT count(*) FROM program_launch) - (SELECT count(*) FROM launch_phase p JOIN program_launch o ON o.kernel_id = p.kernel_id WHERE p.setup_part = 'tuning')
    AS launches,
  (SELECT count(*) FROM launch_phase WHERE program_phase IN ($phases)) AS phase_launches,
  (SELECT count(DISTINCT k.kernel_id) FROM cost_run k JOIN program_launch o ON o.kernel_id = k.kernel_id) AS sampled_launches,
  (SELECT count(*) FROM cost_run WHERE is_replay) AS replayed_launches,
  (SELECT count(*) FROM memory_access) AS requests,
  (SELECT count(t.time_ns) FROM launch_time t JOIN program_launch o ON o.kernel_id = t.kernel_id) AS timed_launches,
  (SELECT count(*) FROM measured_time m JOIN program_launch o ON o.kernel_id = m.kernel_id) AS measured_launches,
  (SELECT count(*) FROM run_option WHERE name = 'imported.tool') > 0 AS is_imported,
  k.costliest, k.time_ns / nullif(c.phase_ns, 0.0) AS costliest_share,
  c.samples, c.memory_samples, c.time_ns
FROM cost c
CROSS JOIN stepped s
LEFT JOIN (SELECT * FROM run ORDER BY run_id LIMIT 1) r ON true
LEFT JOIN (
  SELECT coalesce(n.short_kernel, f.demangled_name) AS costliest, s.time_ns
  FROM kernel s
  LEFT JOIN kernel_name n ON n.function_id = s.function_id
  LEFT JOIN function f ON f.function_id = s.function_id
  ORDER BY s.time_ns DESC NULLS LAST, f.demangled_name, s.function_id
  LIMIT 1
) k ON true
