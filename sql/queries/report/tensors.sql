-- Tensors by stall cost
-- Samples of warps that waited for a tensor's data, or for an allocation outside tensors, and where memory is busy,
-- samples by its traffic. low to high is the 95 % confidence interval. time: the part of the launches' GPU time.
-- Tensors are grouped by name, with * for layers, or op, line, shape. Rows in parentheses are unattributed. All rows add
-- up to the samples.
-- (grad): in backward, the line whose gradient it is.
WITH cost AS (
  SELECT
    remainder, family AS object, family_type AS type, op, born_at,
    CASE WHEN count(DISTINCT object) > 1 THEN family ELSE max(label) END AS label, max(label_source) AS label_source,
    first_value(stalled_at ORDER BY samples DESC, stalled_at) AS stalled_at,
    sum(CASE WHEN target = 'tensor' THEN 1 ELSE 0 END) AS tensors,
    min(CASE WHEN target = 'tensor' THEN family_id END) AS tensor_id,
    sum(samples) AS samples,
    sum(samples * sample_weight) AS variance,
    sum(share) AS share,
    sum(memory_share) AS memory_share,
    sum(time_ns) AS time_ns
  FROM object_cost
  GROUP BY remainder, family, family_type, op, born_at
), placed AS (
  -- Objects by cost, the rest aggregated, then unattributed rows by cost.
  SELECT *, CASE WHEN remainder IS NULL THEN least($top + 1, row_number() OVER (
    PARTITION BY remainder IS NULL ORDER BY samples DESC, object, type, op, born_at
  )) ELSE $top + 1 + row_number() OVER (
    PARTITION BY remainder IS NULL ORDER BY remainder = '(not memory)', samples DESC, remainder
  ) END AS place
  FROM cost
), summed AS (
  SELECT
    place, sum(share) AS share, sum(memory_share) AS memory_share, sum(samples) AS samples,
    coalesce(sum(variance) / nullif(sum(samples), 0.0), 1.0) AS weight,
    sum(time_ns) AS time_ns, sum(tensors) AS tensors, count(*) AS objects, max(remainder) AS remainder,
    max(object) AS object, max(label) AS label, max(label_source) AS label_source, max(type) AS type, max(op) AS op, max(born_at) AS born_at, max(stalled_at) AS stalled_at,
    max(tensor_id) AS tensor_id
  FROM placed
  GROUP BY place
)
SELECT
  share, memory_share, samples,
  poisson_low(samples / weight) * weight AS low,
  poisson_high(samples / weight) * weight AS high,
  time_ns,
  nullif(tensors, 0) AS tensors,
  CASE WHEN place = $top + 1 THEN 'other (' || CAST(objects AS VARCHAR) || ')' ELSE coalesce(remainder, label) END
    AS tensor,
  CASE WHEN place <= $top THEN label_source END AS label_source,
  CASE WHEN place <= $top THEN type END AS type,
  CASE WHEN place <= $top THEN op END AS op,
  CASE WHEN place <= $top THEN born_at END AS born_at,
  CASE WHEN place <= $top THEN stalled_at END AS stalled_at,
  -- For programs, and for the page's links. The text report omits it.
  CASE WHEN place <= $top THEN tensor_id END AS tensor_id
FROM summed
ORDER BY place
