-- Shares by line
-- All samples of some phases of the program, as parts of 1, by the line that launched the kernels, with its gradient.
-- Without samples, all time. Kernels without a line that anyone wrote are rows under their label. A line with more than
-- half of all, or a sixth outside of `forward`, which is mostly in several modules of a model, is shown by module: numbers in paths with names are *, and text is the line. kind:
-- line, module, kernel, other (the rest). text: the line's, as the program ran it.
WITH taken AS (
  SELECT c.*, sum(c.samples) OVER () AS all_samples
  FROM sample_cost c
  JOIN launch_phase p ON p.kernel_id = c.kernel_id
  WHERE p.program_phase IN ($phases)
), cost AS (
  SELECT
    kernel_id, sum(CASE WHEN all_samples > 0.0 THEN samples ELSE coalesce(time_ns, 0.0) END) AS samples,
    sum(memory_samples) AS memory_samples
  FROM taken
  GROUP BY kernel_id
), written AS (
  -- A file of a compiler has a hash for its name, and no line that anyone wrote. A step's range is around everything. The
  -- kernel says more.
  SELECT
    kernel_id, function_id, kernel, module_path,
    CASE WHEN NOT regexp_like(coalesce(forward_line, line),
      '(^|/)c[a-z2-7]{40,}[.]py:|(^|[ _.-])(step|iteration|iter)[ _.#:-]*[0-9]* [(]range[)]')
      THEN coalesce(forward_line, line) END AS place
  FROM launch_context
), named AS (
  SELECT
    CASE WHEN l.place IS NULL THEN 'kernel' ELSE 'line' END AS kind,
    coalesce(l.place, n.short_kernel, l.kernel, 'unknown kernel') AS label,
    l.module_path, c.samples, c.memory_samples
  FROM cost c
  JOIN written l ON l.kernel_id = c.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
), of_path AS (
  SELECT kind, label, module_path, sum(samples) AS samples, sum(memory_samples) AS memory_samples
  FROM named
  GROUP BY kind, label, module_path
), of_module AS (
  SELECT
    kind, label, CASE WHEN regexp_like(module_path, '[^0-9.]') THEN regexp_replace(module_path, '\b[0-9]+\b', '*', 'g')
      ELSE 'module ' || module_path END AS module,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples
  FROM of_path
  GROUP BY 1, 2, 3
), weighed AS (
  SELECT
    *, sum(samples) OVER () AS all_samples, sum(samples) OVER (PARTITION BY kind, label) AS line_samples,
    sum(CASE WHEN module IS NULL THEN 0.0 ELSE samples END) OVER (PARTITION BY kind, label) AS module_samples,
    max(samples) OVER (PARTITION BY kind, label) AS most_samples
  FROM of_module
), split AS (
  SELECT
    -- Lines outside of a model's forward drive it.
    *, kind = 'line' AND module IS NOT NULL
      AND line_samples > CASE WHEN label LIKE '%forward' THEN 0.5 ELSE 0.15 END * all_samples
      AND module_samples > 0.5 * line_samples AND most_samples < 0.9 * line_samples AS is_split
  FROM weighed
), summed AS (
  SELECT
    CASE WHEN is_split THEN 'module' ELSE kind END AS kind, CASE WHEN is_split THEN module ELSE label END AS label,
    max(CASE WHEN is_split THEN label END) AS line, sum(samples) AS samples, sum(memory_samples) AS memory_samples
  FROM split
  GROUP BY 1, 2
), placed AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY samples DESC, kind, label)) AS place FROM summed
)
SELECT
  CASE WHEN place <= $top THEN max(kind) ELSE 'other' END AS kind,
  CASE WHEN place <= $top THEN max(label) END AS label,
  CASE WHEN place <= $top THEN coalesce(max(p.line), max(t.text)) END AS text,
  count(*) AS objects,
  sum(samples) AS samples,
  sum(memory_samples) AS memory_samples,
  sum(samples) / nullif(sum(sum(samples)) OVER (), 0.0) AS share
FROM placed p
LEFT JOIN line_text t ON t.line = p.label
GROUP BY place
ORDER BY place
