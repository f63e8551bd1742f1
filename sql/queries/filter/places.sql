-- Lines and ops of launches
-- The values that a filter can name, the costliest first. kind: line, op.
WITH named AS (
  SELECT 'line' AS kind, line AS label, samples FROM line_cost
  UNION ALL
  SELECT 'line' AS kind, forward_line AS label, samples FROM line_cost
  UNION ALL
  SELECT 'op' AS kind, op AS label, samples FROM op_cost
)
SELECT kind, label
FROM named
WHERE label IS NOT NULL
GROUP BY kind, label
ORDER BY kind, sum(samples) DESC, label
