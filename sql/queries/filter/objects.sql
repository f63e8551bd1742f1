-- Objects of some launches
-- The columns of `object_cost`, of the launches that a filter chooses. share and memory_share: parts of all samples.
WITH used AS (
  SELECT
    target, object_id, remainder, coalesce(line_label(line, forward_line), kernel_label(kernel)) AS stalled_at,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(waited_samples) AS waited_samples,
    sum(samples * sample_weight) AS variance, sum(time_ns) AS time_ns
  FROM tensor_cost
  WHERE $filter
  GROUP BY target, object_id, remainder, coalesce(line_label(line, forward_line), kernel_label(kernel))
), summed AS (
  SELECT
    target, object_id, remainder, first_value(stalled_at ORDER BY samples DESC, stalled_at) AS stalled_at,
    sum(samples) AS samples, sum(memory_samples) AS memory_samples, sum(waited_samples) AS waited_samples,
    coalesce(sum(variance) / nullif(sum(samples), 0.0), 1.0) AS sample_weight, sum(time_ns) AS time_ns
  FROM used
  GROUP BY target, object_id, remainder
), named AS (
  SELECT *, sum(samples) OVER () AS all_samples, sum(memory_samples) OVER () AS all_memory_samples FROM object_cost
)
SELECT
  o.target, o.object_id, o.remainder, o.object, o.label, o.label_source, o.type, o.op, o.born_at, s.stalled_at, s.samples,
  s.sample_weight, s.samples / nullif(o.all_samples, 0.0) AS share, s.memory_samples,
  CASE WHEN s.memory_samples > 0.0 THEN s.memory_samples / o.all_memory_samples END AS memory_share, s.waited_samples, s.time_ns,
  o.family, o.family_type, o.family_id
FROM summed s
JOIN named o ON coalesce(o.target, '') = coalesce(s.target, '') AND coalesce(o.object_id, 0) = coalesce(s.object_id, 0)
  AND coalesce(o.remainder, '') = coalesce(s.remainder, '')
