-- Shares by line
-- GPU time of some phases, as parts of 1, by the line of the launches, with its gradient, or samples if less than half of it
-- was measured. In steps whose copies and fills take longer than kernels, with theirs. Kernels without a written line have
-- their label. A line with more than half of all, or a sixth outside of `forward`, mostly in modules, is shown by module:
-- numbers in paths are *. One without modules, by kernel. kind: line, module, kernel, copy, other (the rest). text: the
-- line's, else the costliest line.
WITH moved AS (
  SELECT
    CASE a.kind WHEN 'fill' THEN 'fills of memory' ELSE 'copies ' || replace(coalesce(a.copy_kind, 'of memory'), '_', ' ') END AS label,
    o.source_line AS line, CAST(sum(a.end_ns - a.begin_ns) AS DOUBLE) AS ns
  FROM gpu_activity a
  JOIN activity_phase p ON p.run_id = a.run_id AND p.activity_id = a.activity_id
  LEFT JOIN op_context o ON o.op_id = a.op_id
  WHERE a.kind IN ('copy', 'fill') AND p.program_phase IN ($phases)
  GROUP BY 1, 2
), taken AS (
  SELECT
    c.kernel_id, c.samples, coalesce(c.time_ns, 0.0) AS ns, sum(c.samples) OVER () AS all_samples,
    coalesce(sum(c.time_ns) OVER (), 0.0) < m.ns AND min(CASE WHEN p.program_phase = 'steady' THEN 1 ELSE 0 END) OVER () = 1 AS are_copies,
    coalesce(sum(CASE WHEN t.kernel_id IS NOT NULL THEN c.time_ns END) OVER () >= 0.5 * sum(c.time_ns) OVER (), false) AS are_timed
  FROM sample_cost c
  JOIN launch_phase p ON p.kernel_id = c.kernel_id
  LEFT JOIN measured_time t ON t.kernel_id = c.kernel_id
  CROSS JOIN (SELECT coalesce(sum(ns), 0.0) AS ns FROM moved) m
  WHERE p.program_phase IN ($phases)
), cost AS (
  SELECT kernel_id, sum(CASE WHEN all_samples > 0.0 AND NOT are_copies AND NOT are_timed THEN samples ELSE ns END) AS cost
  FROM taken
  GROUP BY kernel_id
), inner_line AS (
  SELECT line FROM python_line GROUP BY line HAVING bool_and(is_in_module)
), named AS (
  SELECT
    l.written_line AS place, i.line IS NOT NULL AS is_in_module, coalesce(n.short_kernel, l.kernel, 'unknown kernel') AS kernel,
    CASE WHEN regexp_like(l.module_path, '[^0-9.]') THEN regexp_replace(l.module_path, '\b[0-9]+\b', '*', 'g')
      ELSE 'module ' || l.module_path END AS module,
    sum(c.cost) AS cost
  FROM cost c
  JOIN launch_context l ON l.kernel_id = c.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
  LEFT JOIN inner_line i ON i.line = l.written_line
  GROUP BY 1, 2, 3, 4
), weighed AS (
  SELECT
    *, sum(cost) OVER () AS all_cost, sum(cost) OVER (PARTITION BY place) AS line_cost,
    sum(CASE WHEN module IS NULL THEN 0.0 ELSE cost END) OVER (PARTITION BY place) AS module_cost,
    sum(cost) OVER (PARTITION BY place, module) AS own_cost,
    sum(cost) OVER (PARTITION BY place, kernel) AS kernel_cost
  FROM named
), most AS (
  SELECT
    *, first_value(module) OVER (PARTITION BY place ORDER BY own_cost DESC, module) LIKE '%*%' AS is_layered,
    max(own_cost) OVER (PARTITION BY place) AS most_module, max(kernel_cost) OVER (PARTITION BY place) AS most_kernel
  FROM weighed
), split AS (
  SELECT
    -- Lines outside of a model's forward drive it, functions of its modules do not.
    *, NOT is_in_module AND line_cost > CASE WHEN place LIKE '%forward' THEN 0.5 ELSE 0.15 END * all_cost
      AND module_cost > 0.5 * line_cost AND (most_module < 0.9 * line_cost OR is_layered) AS has_modules,
    line_cost > 0.5 * all_cost AND most_kernel < 0.9 * line_cost AS has_kernels
  FROM most
), leveled AS (
  SELECT
    *, CASE WHEN place IS NULL THEN 'kernel' WHEN has_modules AND module IS NOT NULL THEN 'module'
      WHEN has_kernels AND NOT has_modules THEN 'kernel' ELSE 'line' END AS kind
  FROM split
), summed AS (
  SELECT
    kind, CASE kind WHEN 'module' THEN module WHEN 'kernel' THEN kernel ELSE place END AS label,
    CASE WHEN kind <> 'line' THEN first_value(place ORDER BY cost DESC, place) END AS line, sum(cost) AS cost
  FROM leveled
  GROUP BY 1, 2
  UNION ALL
  SELECT 'copy', m.label, first_value(m.line ORDER BY m.line IS NULL, m.ns DESC, m.line), sum(m.ns)
  FROM moved m
  JOIN (SELECT bool_or(are_copies) AS are_copies FROM taken) t ON t.are_copies
  GROUP BY m.label
), placed AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY cost DESC, kind, label)) AS place FROM summed
)
SELECT
  CASE WHEN place <= $top THEN max(kind) ELSE 'other' END AS kind,
  CASE WHEN place <= $top THEN max(label) END AS label,
  CASE WHEN place <= $top THEN coalesce(max(p.line), max(t.text)) END AS text,
  count(*) AS objects,
  sum(cost) / nullif(sum(sum(cost)) OVER (), 0.0) AS share
FROM placed p
LEFT JOIN line_text t ON t.line = p.label
GROUP BY place
ORDER BY place
