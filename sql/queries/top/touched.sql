-- Tensors by accesses
-- The capture has no samples, so these are recorded accesses. share: the part of all sectors of 32 bytes that requests
-- touch. ideal: sectors that the same bytes need at least. Tensors are grouped by name, or op, line, shape. Rows in
-- parentheses are memory outside of tensors. All rows add up to the sectors.
WITH touched AS (
  SELECT
    target, coalesce(tensor_id, storage_id, allocation_id) AS object_id,
    sum(CAST(sectors AS DOUBLE)) AS sectors, sum(CAST(ideal_sectors AS DOUBLE)) AS ideal_sectors,
    sum(CAST(unique_bytes AS DOUBLE)) AS bytes, sum(CAST(request_count AS DOUBLE)) AS requests,
    '(' || CASE target WHEN 'not global' THEN 'shared, local or constant memory'
      ELSE replace(CAST(target AS VARCHAR), '_', ' ') END || ')' AS remainder
  FROM pc_tensor
  GROUP BY target, coalesce(tensor_id, storage_id, allocation_id)
), object AS (
  SELECT
    coalesce(t.label, t.name, u.remainder) AS label,
    t.family_type AS type, t.op, t.born_at, count(*) AS objects, sum(u.sectors) AS sectors,
    sum(u.ideal_sectors) AS ideal_sectors, sum(u.bytes) AS bytes, sum(u.requests) AS requests
  FROM touched u
  LEFT JOIN target_context t ON t.target = u.target AND t.object_id = u.object_id
  GROUP BY coalesce(t.label, t.name, u.remainder), t.family_type, t.op, t.born_at
), placed AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY sectors DESC, label, type, op, born_at)) AS place FROM object
), total AS (
  SELECT sum(sectors) AS sectors FROM object
)
SELECT
  sum(p.sectors) / nullif(max(t.sectors), 0.0) AS share, sum(p.sectors) AS sectors,
  sum(p.ideal_sectors) / nullif(sum(p.sectors), 0.0) AS ideal, sum(p.bytes) AS size_bytes, sum(p.requests) AS requests,
  sum(p.objects) AS tensors,
  CASE WHEN place = $top + 1 THEN 'other (' || CAST(count(*) AS VARCHAR) || ')' ELSE max(p.label) END AS tensor,
  CASE WHEN place <= $top THEN max(p.type) END AS type,
  CASE WHEN place <= $top THEN max(p.op) END AS op,
  CASE WHEN place <= $top THEN max(p.born_at) END AS born_at
FROM placed p
CROSS JOIN total t
GROUP BY place
ORDER BY place
