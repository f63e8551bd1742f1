-- Costs of some launches
-- The columns of `kernel_cost`, `line_cost` and `op_cost`, of the launches that a filter chooses. share: part of all samples.
SELECT
  $keys,
  count(DISTINCT l.kernel_id) AS launch_count,
  coalesce(sum(s.samples), 0.0) AS samples,
  coalesce(sum(s.samples), 0.0) / nullif((SELECT sum(samples) FROM sample_cost), 0.0) AS share,
  coalesce(sum(s.memory_samples), 0.0) AS memory_samples,
  sum(s.memory_samples) / nullif(sum(s.samples), 0.0) AS memory_share,
  sum(s.time_ns) AS time_ns
FROM (SELECT * FROM launch_context WHERE $filter) l
LEFT JOIN sample_cost s ON s.kernel_id = l.kernel_id
GROUP BY $keys
