-- One launch of the program: true if the capture has every access that it made.
--
-- Only then did a launch not use memory that it has no access to. Accesses of tensor maps and bulk copies are never
-- observed.
CREATE VIEW launch_observed (
  kernel_id,
  -- True if every access is recorded or counted.
  is_whole,
  -- True if each of its requests is a row: none was left out, and no other launch stands for it.
  has_every_row,
  -- The first reason that applies: not recorded, accesses of another launch, requests left out, code not read,
  -- instructions without a patch point, global memory not recorded. Null if it is whole.
  reason
) AS
WITH lost AS (
  SELECT kernel_id, max(coalesce(lost_request_count, 0)) AS requests
  FROM launch_run
  WHERE request_count IS NOT NULL
  GROUP BY kernel_id
), space AS (
  -- A recording without a list of patched spaces has patched all.
  SELECT r.run_id, bool_and(strpos(o.value, 'global') > 0) AS has_global
  FROM run_option o
  JOIN run r ON r.run_id = o.run_id
  WHERE o.name = 'spaces' AND r.instrument = 'accesses'
  GROUP BY r.run_id
), judged AS (
  SELECT
    l.kernel_id, a.source <> 'none' AND a.source <> 'model launch' AND coalesce(c.requests, 0) = 0 AS has_every_row,
    CASE
      WHEN a.source = 'none' THEN 'not recorded'
      WHEN a.source = 'model launch' THEN 'accesses of another launch'
      WHEN a.source = 'rows' AND coalesce(c.requests, 0) > 0 THEN 'requests left out'
      WHEN f.uncovered_instruction_count IS NULL THEN 'code not read'
      WHEN f.uncovered_instruction_count > 0 THEN 'instructions without a patch point'
      WHEN NOT coalesce(s.has_global, true) THEN 'global memory not recorded'
    END AS reason
  FROM launch l
  JOIN launch_access a ON a.kernel_id = l.kernel_id
  LEFT JOIN function f ON f.function_id = l.function_id
  LEFT JOIN lost c ON c.kernel_id = l.kernel_id
  LEFT JOIN space s ON s.run_id = l.run_id
)
SELECT kernel_id, reason IS NULL, has_every_row, reason FROM judged
