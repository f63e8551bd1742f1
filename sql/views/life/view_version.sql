-- One storage that launches of a kernel read through non-contiguous views: their number, and that of its versions.
--
-- Between two writes of the storage, by `possible_write`, all launches read one version. One contiguous copy serves these.
CREATE VIEW view_version (
  -- The kernel.
  function_id,
  storage_id,
  -- Launches that read it.
  use_count,
  -- Its versions, from the first of these launches to the last.
  version_count,
  -- True if launches of several steps read one version: copied once, it serves the rest of the run.
  is_constant
) AS
WITH used AS (
  SELECT
    l.run_id, l.function_id, t.storage_id, count(DISTINCT l.kernel_id) AS uses, count(DISTINCT s.program_step) AS steps, min(l.ordinal) AS first_ordinal,
    max(l.ordinal) AS last_ordinal
  FROM pc_tensor_part p
  JOIN tensor t ON t.tensor_id = p.tensor_id
  JOIN launch l ON l.kernel_id = p.kernel_id
  LEFT JOIN launch_phase s ON s.kernel_id = l.kernel_id
  WHERE NOT t.is_contiguous AND t.storage_id IS NOT NULL
  GROUP BY l.run_id, l.function_id, t.storage_id
)
SELECT
  u.function_id, u.storage_id, u.uses, count(w.object_id) + 1, u.steps > 1 AND count(w.object_id) = 0
FROM used u
LEFT JOIN possible_write w ON w.storage_id = u.storage_id AND w.ordinal > u.first_ordinal AND w.ordinal <= u.last_ordinal
GROUP BY u.function_id, u.storage_id, u.uses, u.steps
