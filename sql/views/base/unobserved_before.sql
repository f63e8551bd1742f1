-- One ordinal of a run: the launches before it that were not observed completely, as in `launch_observed`.
--
-- The difference of two rows is the number of such launches between them. Ordinals are those of launches, copies,
-- allocations and frees, and the next one after each launch. A launch of a CUDA graph counts at its capture.
CREATE VIEW unobserved_before (
  run_id,
  -- The ordinal.
  ordinal,
  -- Launches before it that were not observed completely.
  launch_count,
  -- Launches among these without an op whose tensors are known: nothing shows what they used.
  blind_count,
  -- Launches before it of which not each request is a row. Counts say which memory they wrote, and not which bytes.
  partial_count,
  -- False if the run made launches without a row: nothing shows when they ran.
  is_listed
) AS
WITH missing AS (
  SELECT
    l.run_id, coalesce(l.capture_ordinal, l.ordinal) AS ordinal, sum(CASE WHEN o.is_whole THEN 0 ELSE 1 END) AS launches,
    sum(CASE WHEN o.is_whole OR d.op_id IS NOT NULL THEN 0 ELSE 1 END) AS blind, count(*) AS partial
  FROM launch l
  JOIN launch_observed o ON o.kernel_id = l.kernel_id
  LEFT JOIN (SELECT DISTINCT op_id FROM op_tensor) d ON d.op_id = l.op_id
  WHERE NOT (o.is_whole AND o.has_every_row)
  GROUP BY l.run_id, coalesce(l.capture_ordinal, l.ordinal)
), point AS (
  SELECT run_id, ordinal FROM launch
  UNION SELECT run_id, ordinal + 1 FROM launch
  UNION SELECT run_id, capture_ordinal FROM launch WHERE capture_ordinal IS NOT NULL
  UNION SELECT run_id, capture_ordinal + 1 FROM launch WHERE capture_ordinal IS NOT NULL
  UNION SELECT run_id, ordinal FROM memcpy
  UNION SELECT run_id, ordinal FROM memset
  UNION SELECT run_id, alloc_ordinal FROM storage
  UNION SELECT run_id, free_ordinal FROM storage WHERE free_ordinal IS NOT NULL
  UNION SELECT run_id, alloc_ordinal FROM device_allocation
  UNION SELECT run_id, free_ordinal FROM device_allocation WHERE free_ordinal IS NOT NULL
), lost AS (
  SELECT run_id, sum(lost_count) AS launches FROM loss WHERE kind = 'launch' GROUP BY run_id
), listed AS (
  -- Launches that were seen and not recorded have rows, or are counted only.
  SELECT run_id, sum(CASE WHEN recorded THEN 0 ELSE 1 END) AS launches FROM launch_run GROUP BY run_id
)
SELECT
  p.run_id, p.ordinal,
  CAST(coalesce(sum(m.launches) OVER before, 0) AS BIGINT), CAST(coalesce(sum(m.blind) OVER before, 0) AS BIGINT),
  CAST(coalesce(sum(m.partial) OVER before, 0) AS BIGINT),
  coalesce(x.launches, 0) <= coalesce(y.launches, 0)
FROM point p
LEFT JOIN missing m ON m.run_id = p.run_id AND m.ordinal = p.ordinal
LEFT JOIN lost x ON x.run_id = p.run_id
LEFT JOIN listed y ON y.run_id = p.run_id
WINDOW before AS (PARTITION BY p.run_id ORDER BY p.ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
