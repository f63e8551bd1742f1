-- Tensors behind shared memory
-- A kernel moves tiles of a tensor into shared memory and waits for both: waits is the part of all samples that waits for
-- device memory, shared the part that waits for reads of shared memory that the tensor filled. These samples are in no
-- tensor's cost. Rows in parentheses are reads of shared memory whose content is unknown.
WITH behind AS (
  SELECT target, coalesce(tensor_id, storage_id, allocation_id) AS object_id, sum(samples) AS samples
  FROM shared_wait
  GROUP BY target, coalesce(tensor_id, storage_id, allocation_id)
), charged AS (
  SELECT target, object_id, waited_samples FROM object_cost WHERE remainder IS NULL
), object AS (
  SELECT
    CASE WHEN s.object_id IS NULL THEN '(unknown or computed)' ELSE coalesce(t.name, 'unnamed') END AS object,
    t.family_type AS type, t.op, t.born_at,
    max(CASE WHEN s.object_id IS NULL THEN '(unknown or computed)' ELSE coalesce(t.label, 'unnamed') END) AS label,
    max(t.label_source) AS label_source, count(*) AS objects, sum(s.samples) AS shared_samples,
    sum(coalesce(c.waited_samples, 0.0)) AS waited_samples
  FROM behind s
  LEFT JOIN charged c ON c.target = s.target AND c.object_id = s.object_id
  LEFT JOIN target_context t ON t.target = s.target AND t.object_id = s.object_id
  GROUP BY
    CASE WHEN s.object_id IS NULL THEN '(unknown or computed)' ELSE coalesce(t.name, 'unnamed') END, t.family_type, t.op,
    t.born_at
), placed AS (
  SELECT
    *, least($top + 1, row_number() OVER (ORDER BY shared_samples DESC, waited_samples DESC, object, type, op, born_at))
      AS place
  FROM object
), total AS (
  SELECT sum(samples) AS samples FROM launch_sample
)
SELECT
  sum(p.shared_samples) / nullif(max(t.samples), 0.0) AS shared,
  sum(p.waited_samples) / nullif(max(t.samples), 0.0) AS waits,
  sum(p.shared_samples) AS shared_samples, sum(p.waited_samples) AS waited_samples, sum(p.objects) AS tensors,
  CASE WHEN place = $top + 1 THEN 'other (' || CAST(count(*) AS VARCHAR) || ')' ELSE max(p.label) END AS tensor,
  CASE WHEN place <= $top THEN max(p.label_source) END AS label_source,
  CASE WHEN place <= $top THEN max(p.type) END AS type,
  CASE WHEN place <= $top THEN max(p.op) END AS op,
  CASE WHEN place <= $top THEN max(p.born_at) END AS born_at
FROM placed p
CROSS JOIN total t
GROUP BY place
ORDER BY place
