-- One item of the critical path of a step, against the step of the run whose length is the median: why steps differ.
--
-- `change_ns` of all items of a step adds up to `step_ns - base_step_ns`.
CREATE VIEW step_change (
  -- The timeline run.
  run_id,
  -- The step.
  program_step,
  -- Its length, nanoseconds.
  step_ns,
  -- The step of median length. Of two in the middle, the shorter one.
  base_step,
  -- Its length.
  base_step_ns,
  -- The kind, as in `critical_segment`.
  kind,
  -- The function of a kernel or collective.
  function_id,
  -- The op of the host, or the direction of a copy.
  name,
  -- Time on the path of the step, nanoseconds.
  path_ns,
  -- Time on the path of the step of median length.
  base_ns,
  -- The difference.
  change_ns
) AS
WITH step AS (
  SELECT run_id, program_step, max(step_ns) AS step_ns
  FROM critical_item
  WHERE program_step IS NOT NULL
  GROUP BY run_id, program_step
), placed AS (
  SELECT
    *, row_number() OVER (PARTITION BY run_id ORDER BY step_ns, program_step) AS place,
    count(*) OVER (PARTITION BY run_id) AS steps
  FROM step
), base AS (
  SELECT run_id, program_step AS base_step, step_ns AS base_step_ns FROM placed WHERE place = (steps + 1) / 2
), side AS (
  SELECT
    i.run_id, i.program_step, i.kind, i.function_id, i.name, i.path_ns, CAST(0 AS BIGINT) AS base_ns
  FROM critical_item i
  WHERE i.program_step IS NOT NULL
  UNION ALL
  SELECT s.run_id, s.program_step, i.kind, i.function_id, i.name, CAST(0 AS BIGINT) AS path_ns, i.path_ns AS base_ns
  FROM step s
  JOIN base b ON b.run_id = s.run_id
  JOIN critical_item i ON i.run_id = b.run_id AND i.program_step = b.base_step
), summed AS (
  SELECT
    run_id, program_step, kind, function_id, name, sum(path_ns) AS path_ns, sum(base_ns) AS base_ns
  FROM side
  GROUP BY run_id, program_step, kind, function_id, name
)
SELECT
  u.run_id, u.program_step, s.step_ns, b.base_step, b.base_step_ns, u.kind, u.function_id, u.name, u.path_ns, u.base_ns,
  u.path_ns - u.base_ns
FROM summed u
JOIN step s ON s.run_id = u.run_id AND s.program_step = u.program_step
JOIN base b ON b.run_id = u.run_id
