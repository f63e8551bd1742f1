-- One use that wrote an object, as in `object_use`, or may have written it.
--
-- A use of unknown direction counts, unless its op has the storage's tensors as arguments only, and not as results.
CREATE VIEW possible_write (
  -- The object.
  object_id,
  -- The storage. Null for a driver allocation.
  storage_id,
  -- The launch. Null for memcpys and memsets.
  kernel_id,
  -- Ordinal of the launch. For a memcpy or memset, that of the first launch after it.
  ordinal,
  -- The op that it ran for.
  op_id,
  -- Evidence, as in `object_use`.
  evidence,
  -- True if it wrote. If not, its accesses were not observed.
  is_observed
) AS
WITH argument AS (
  SELECT d.op_id, t.storage_id, bool_and(d.direction = 'in') AS is_only_read
  FROM op_tensor d
  JOIN tensor t ON t.tensor_id = d.tensor_id
  GROUP BY d.op_id, t.storage_id
)
SELECT u.object_id, u.storage_id, u.kernel_id, u.ordinal, u.op_id, u.evidence, u.direction <> 'unknown'
FROM object_use u
LEFT JOIN argument a ON a.op_id = u.op_id AND a.storage_id = u.storage_id
WHERE u.direction IN ('write', 'both') OR u.direction = 'unknown' AND NOT coalesce(a.is_only_read, false)
