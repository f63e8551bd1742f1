-- One view and its base tensor: the samples that waited for each, and the efficiency of their accesses.
--
-- Consider `contiguous()` or another layout for a non-contiguous view that costs more than its base and needs more
-- sectors than its bytes fill.
CREATE VIEW view_cost (
  -- The view.
  tensor_id,
  -- Its base tensor.
  base_tensor_id,
  -- The root of its tree.
  root_tensor_id,
  -- Its name, else a label made from its op or size.
  tensor,
  -- Element type, sizes, and strides if not contiguous.
  type,
  -- The ops from the root to the view, separated by arrows.
  chain,
  -- Views from the root to it.
  depth,
  -- True if its elements lie in the order of its dimensions.
  is_contiguous,
  born_at,
  -- Samples attributed to it.
  samples,
  -- Samples attributed to its base.
  base_samples,
  -- Samples attributed to the root.
  root_samples,
  -- Sectors that launches read and wrote of it, summed over warp requests. Null if none was observed.
  sectors,
  -- The fewest sectors that hold those bytes.
  ideal_sectors,
  -- Sectors of its base.
  base_sectors,
  -- The fewest sectors that hold those bytes.
  base_ideal_sectors
) AS
WITH cost AS (
  SELECT object_id, samples FROM object_cost WHERE target = 'tensor'
), accessed AS (
  SELECT tensor_id, sum(sectors) AS sectors, sum(ideal_sectors) AS ideal_sectors
  FROM pc_tensor
  WHERE tensor_id IS NOT NULL
  GROUP BY tensor_id
), above AS (
  SELECT
    t.tensor_id, t.ancestor_tensor_id, t.distance, coalesce(c.samples, 0.0) AS samples, a.sectors, a.ideal_sectors,
    o.name AS op
  FROM tensor_tree t
  LEFT JOIN cost c ON c.object_id = t.ancestor_tensor_id
  LEFT JOIN accessed a ON a.tensor_id = t.ancestor_tensor_id
  LEFT JOIN tensor s ON s.tensor_id = t.ancestor_tensor_id
  LEFT JOIN op o ON o.op_id = s.op_id
), chained AS (
  SELECT
    tensor_id,
    max(CASE WHEN distance = 1 THEN ancestor_tensor_id END) AS base_tensor_id,
    first_value(ancestor_tensor_id ORDER BY distance DESC) AS root_tensor_id,
    string_agg(coalesce(op, 'unnamed'), ' → ' ORDER BY distance DESC) AS chain,
    max(distance) AS depth,
    max(CASE WHEN distance = 0 THEN samples END) AS samples,
    max(CASE WHEN distance = 1 THEN samples END) AS base_samples,
    first_value(samples ORDER BY distance DESC) AS root_samples,
    max(CASE WHEN distance = 0 THEN sectors END) AS sectors,
    max(CASE WHEN distance = 0 THEN ideal_sectors END) AS ideal_sectors,
    max(CASE WHEN distance = 1 THEN sectors END) AS base_sectors,
    max(CASE WHEN distance = 1 THEN ideal_sectors END) AS base_ideal_sectors
  FROM above
  GROUP BY tensor_id
)
SELECT
  c.tensor_id, c.base_tensor_id, c.root_tensor_id, coalesce(x.name, 'unnamed'), x.type, c.chain, c.depth,
  t.is_contiguous, x.born_at, c.samples, c.base_samples, c.root_samples, c.sectors, c.ideal_sectors, c.base_sectors,
  c.base_ideal_sectors
FROM chained c
JOIN tensor t ON t.tensor_id = c.tensor_id
LEFT JOIN target_context x ON x.target = 'tensor' AND x.object_id = c.tensor_id
WHERE c.depth > 0
