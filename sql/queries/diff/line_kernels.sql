-- Kernels of changed rows
-- Kernels that a row of the comparison has in one capture only, by name, the costliest first. status: added, removed.
WITH named AS (
  SELECT
    p.capture, p.key, min(p.what) AS what,
    CASE WHEN octet_length(n.kernel) > 256 THEN md5(n.kernel) ELSE n.kernel END AS name,
    min(n.short_kernel) AS kernel,
    sum(p.launches) AS launches, sum(p.value) AS value
  FROM $table p
  JOIN every.launch l ON l.capture = p.capture AND l.kernel_id = p.first_kernel_id
  JOIN every.kernel_name n ON n.capture = l.capture AND n.function_id = l.function_id
  GROUP BY p.capture, p.key, n.kernel
), base AS (
  SELECT * FROM named WHERE capture = '$base'
), label AS (
  SELECT capture, key, min(what) AS what FROM named GROUP BY capture, key
)
SELECT
  o.capture, coalesce(lx.what, lb.what) AS what,
  CASE WHEN b.key IS NULL THEN 'added' ELSE 'removed' END AS status,
  coalesce(x.kernel, b.kernel) AS kernel, coalesce(x.launches, b.launches) AS launches,
  coalesce(x.value, b.value) AS value
FROM (SELECT DISTINCT capture FROM every.run WHERE capture <> '$base') o
JOIN (SELECT DISTINCT key, name FROM named) k ON true
LEFT JOIN base b ON b.key = k.key AND b.name = k.name
LEFT JOIN named x ON x.capture = o.capture AND x.key = k.key AND x.name = k.name
LEFT JOIN label lb ON lb.capture = '$base' AND lb.key = k.key
LEFT JOIN label lx ON lx.capture = o.capture AND lx.key = k.key
WHERE (b.key IS NULL) <> (x.key IS NULL)
ORDER BY o.capture, value DESC, what, kernel
