-- Costs of some launches
-- The columns of `kernel_cost`, `line_cost` and `op_cost`, of the launches that a filter chooses. share: part of all samples. In a
-- capture without samples, part of the time of all launches.
SELECT
  $keys,
  count(DISTINCT p.kernel_id) AS launch_count,
  coalesce(sum(s.samples), 0.0) AS samples,
  CASE WHEN (SELECT sum(samples) FROM sample_cost) > 0.0
    THEN coalesce(sum(s.samples), 0.0) / (SELECT sum(samples) FROM sample_cost)
    ELSE sum(s.time_ns) / nullif((SELECT sum(time_ns) FROM sample_cost), 0.0) END AS share,
  coalesce(sum(s.memory_samples), 0.0) AS memory_samples,
  sum(s.memory_samples) / nullif(sum(s.samples), 0.0) AS memory_share,
  sum(s.time_ns) AS time_ns
FROM (SELECT * FROM launch_context WHERE $filter) l
LEFT JOIN program_launch p ON p.kernel_id = l.kernel_id
LEFT JOIN sample_cost s ON s.kernel_id = l.kernel_id
GROUP BY $keys
