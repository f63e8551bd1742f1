-- Shares by line
-- All samples, as parts of 1, by the line that launched the kernels, with its gradient. Kernels without a line are rows
-- under their label. kind: line, kernel, other (the rest). text: the line's, as the program ran it.
WITH cost AS (
  SELECT kernel_id, sum(samples) AS samples, sum(memory_samples) AS memory_samples FROM sample_cost GROUP BY kernel_id
), named AS (
  SELECT
    CASE WHEN coalesce(l.forward_line, l.line) IS NULL THEN 'kernel' ELSE 'line' END AS kind,
    coalesce(l.forward_line, l.line, n.short_kernel, l.kernel, 'unknown kernel') AS label, c.samples, c.memory_samples
  FROM cost c
  JOIN launch_context l ON l.kernel_id = c.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
), summed AS (
  SELECT kind, label, sum(samples) AS samples, sum(memory_samples) AS memory_samples FROM named GROUP BY kind, label
), placed AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY samples DESC, kind, label)) AS place FROM summed
)
SELECT
  CASE WHEN place <= $top THEN max(kind) ELSE 'other' END AS kind,
  CASE WHEN place <= $top THEN max(label) END AS label,
  CASE WHEN place <= $top THEN max(t.text) END AS text,
  count(*) AS objects,
  sum(samples) AS samples,
  sum(memory_samples) AS memory_samples,
  sum(samples) / nullif(sum(sum(samples)) OVER (), 0.0) AS share
FROM placed p
LEFT JOIN line_text t ON t.line = p.label
GROUP BY place
ORDER BY place
