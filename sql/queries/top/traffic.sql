-- Tensors by traffic
-- A load is late because of all traffic where memory is busy, stores among it. share: the part of all samples that its
-- accesses cost, by bytes while memory is busy, by waiting for the rest. waits: the part that waits for it. Both have the
-- same sum. device, L2: bytes between L2 and device memory, and between L1 and L2. busy: share of its launches' time that
-- the busiest of device memory, L2, its requests, L1 and atomics needs.
WITH charged AS (
  SELECT target, object_id, samples, waited_samples, time_ns FROM object_cost WHERE remainder IS NULL
), moved AS (
  SELECT
    kernel_id, target, coalesce(tensor_id, storage_id, allocation_id) AS object_id,
    sum(device_bytes) AS device_bytes, sum(l2_bytes) AS l2_bytes
  FROM launch_traffic
  GROUP BY kernel_id, target, coalesce(tensor_id, storage_id, allocation_id)
), object_traffic AS (
  SELECT
    m.target, m.object_id, sum(m.device_bytes) AS device_bytes, sum(m.l2_bytes) AS l2_bytes,
    sum(l.time_ns) AS launch_ns, sum(l.busy_share * l.time_ns) AS busy_ns
  FROM moved m
  LEFT JOIN launch_limit l ON l.kernel_id = m.kernel_id
  GROUP BY m.target, m.object_id
), object AS (
  SELECT
    coalesce(t.name, 'unnamed') AS object, t.family_type AS type, t.op, t.born_at, max(coalesce(t.label, 'unnamed')) AS label,
    max(t.label_source) AS label_source, count(*) AS objects, sum(c.samples) AS samples,
    sum(c.waited_samples) AS waited_samples, sum(c.time_ns) AS time_ns, sum(o.device_bytes) AS device_bytes,
    sum(o.l2_bytes) AS l2_bytes, sum(o.launch_ns) AS launch_ns, sum(o.busy_ns) AS busy_ns
  FROM charged c
  LEFT JOIN object_traffic o ON o.target = c.target AND o.object_id = c.object_id
  LEFT JOIN target_context t ON t.target = c.target AND t.object_id = c.object_id
  GROUP BY coalesce(t.name, 'unnamed'), t.family_type, t.op, t.born_at
), placed AS (
  SELECT
    *,
    least($top + 1, row_number() OVER (ORDER BY samples DESC, waited_samples DESC, object, type, op, born_at)) AS place
  FROM object
), total AS (
  SELECT sum(samples) AS samples FROM launch_sample
)
SELECT
  sum(p.samples) / nullif(max(t.samples), 0.0) AS share, sum(p.waited_samples) / nullif(max(t.samples), 0.0) AS waits,
  sum(p.samples) AS samples, sum(p.time_ns) AS time_ns, sum(p.device_bytes) AS device_bytes, sum(p.l2_bytes) AS l2_bytes,
  sum(p.busy_ns) / nullif(sum(p.launch_ns), 0.0) AS busy, sum(p.objects) AS tensors,
  CASE WHEN place = $top + 1 THEN 'other (' || CAST(count(*) AS VARCHAR) || ')' ELSE max(p.label) END AS tensor,
  CASE WHEN place <= $top THEN max(p.label_source) END AS label_source,
  CASE WHEN place <= $top THEN max(p.type) END AS type,
  CASE WHEN place <= $top THEN max(p.op) END AS op,
  CASE WHEN place <= $top THEN max(p.born_at) END AS born_at
FROM placed p
CROSS JOIN total t
GROUP BY place
ORDER BY place
