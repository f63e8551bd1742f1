-- One kind of wrong accesses: the launches that could be judged.
CREATE VIEW wrong_access_coverage (
  -- The kind of defect, as in `wrong_access`.
  defect,
  -- Launches that were judged. Of `uninitialized_read`, reads: instructions of launches that read what nothing is known to have written.
  judged,
  -- Launches of the program, or such reads.
  total,
  -- The reason for the rest.
  reason
) AS
WITH held AS (
  SELECT DISTINCT kernel_id, bool_or(space = 'shared') AS has_shared FROM pc_tensor_part GROUP BY kernel_id
), ruled AS (
  SELECT DISTINCT function_id FROM barrier_step
), launch_fact AS (
  SELECT
    l.kernel_id, l.graph_id IS NULL AND a.held_request_count > 0 AS has_rows, h.has_shared, r.function_id IS NOT NULL AS is_ruled,
    k.is_read AND o.function_id IS NULL AS is_unordered
  FROM launch l
  JOIN launch_access a ON a.kernel_id = l.kernel_id
  LEFT JOIN held h ON h.kernel_id = l.kernel_id
  LEFT JOIN ruled r ON r.function_id = l.function_id
  LEFT JOIN function_code k ON k.function_id = l.function_id
  LEFT JOIN ordered_kernel o ON o.function_id = l.function_id
), counted AS (
  SELECT
    count(*) AS launches, sum(CASE WHEN has_rows THEN 1 ELSE 0 END) AS with_rows,
    sum(CASE WHEN has_rows AND is_unordered THEN 1 ELSE 0 END) AS unordered,
    sum(CASE WHEN has_shared THEN 1 ELSE 0 END) AS with_shared,
    sum(CASE WHEN has_shared AND is_ruled THEN 1 ELSE 0 END) AS ruled
  FROM launch_fact
), placed AS (
  -- Launches of programs with storages.
  SELECT count(*) AS launches, sum(CASE WHEN t.kernel_id IS NOT NULL AND l.graph_id IS NULL THEN 1 ELSE 0 END) AS timed
  FROM launch l
  JOIN (SELECT DISTINCT run_id FROM storage) s ON s.run_id = l.run_id
  LEFT JOIN (SELECT DISTINCT kernel_id FROM gpu_activity) t ON t.kernel_id = l.kernel_id
), unwritten AS (
  SELECT count(*) AS reads, sum(CASE WHEN is_certain THEN 1 ELSE 0 END) AS certain FROM uninitialized_read
)
SELECT 'out_of_bounds, use_after_free', with_rows, launches, 'no recorded requests, or a node of a graph' FROM counted
UNION ALL
SELECT 'block_race', unordered, launches, 'no recorded requests, or atomics and fences, by which blocks may be ordered' FROM counted
UNION ALL
SELECT 'shared_race', ruled, with_shared, 'calls, fences, barrier objects, or barriers of a part of the block' FROM counted WHERE with_shared > 0
UNION ALL
SELECT 'uninitialized_read', coalesce(certain, 0), reads, 'launches in between whose accesses are not all in the capture' FROM unwritten
WHERE reads > 0
UNION ALL
SELECT 'reused_memory', timed, launches, 'no timeline, or a node of a graph' FROM placed
WHERE launches > 0
