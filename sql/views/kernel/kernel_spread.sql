-- One measure of one kernel over its launches: count, median, extremes and variation.
--
-- Launches differ by their work as well as by random variation. `shape_count` is the number of distinct grids and
-- blocks, and `launch_measure` has each launch. `chance_spread` is the spread of the median that Poisson counts alone
-- give: a spread near it is not significant.
CREATE VIEW kernel_spread (
  -- The kernel.
  function_id,
  kernel,
  -- Measured quantity: samples, memory_samples, time_ns, duration_ns, accessed_bytes, sectors, excess_sectors. See
  -- `launch_measure`.
  measure,
  launch_count,
  -- Launches that have the measure. Other launches do not count here.
  measured_count,
  -- Distinct grids, blocks and sizes of dynamic shared memory among those.
  shape_count,
  -- Sum.
  total,
  -- Smallest.
  low,
  -- Median.
  median,
  -- Mean.
  mean,
  -- 99th percentile, interpolated between two launches.
  p99,
  -- Largest.
  high,
  -- Standard deviation divided by the mean. Null with fewer than two launches, or with a mean of 0.
  spread,
  -- The same for Poisson counts alone. Only for counts of samples.
  chance_spread
) AS
WITH counted AS (
  SELECT *, count(*) OVER (PARTITION BY function_id) AS launch_count FROM launch_measure
), long AS (
  SELECT
    c.function_id, c.kernel, c.shape, c.dynamic_shared_bytes, c.launch_count, c.sample_weight, m.measure,
    CASE m.measure
      WHEN 'samples' THEN c.samples WHEN 'memory_samples' THEN c.memory_samples
      WHEN 'time_ns' THEN c.time_ns WHEN 'duration_ns' THEN c.duration_ns
      WHEN 'accessed_bytes' THEN CAST(c.accessed_bytes AS DOUBLE) WHEN 'sectors' THEN CAST(c.sectors AS DOUBLE)
      ELSE c.excess_sectors
    END AS value
  FROM counted c
  CROSS JOIN (VALUES ('samples'), ('memory_samples'), ('time_ns'), ('duration_ns'), ('accessed_bytes'),
    ('sectors'), ('excess_sectors')) AS m(measure)
), deviating AS (
  -- `stddev` would depend on the order of rows in its last digit.
  SELECT *, value - avg(value) OVER (PARTITION BY function_id, kernel, measure) AS deviation FROM long
)
SELECT
  function_id, kernel, measure,
  max(launch_count), count(value),
  count(DISTINCT CASE WHEN value IS NOT NULL THEN concat_ws(' ', shape, dynamic_shared_bytes) END),
  sum(value), min(value), median(value), avg(value), percentile_cont(0.99) WITHIN GROUP (ORDER BY value), max(value),
  sqrt(sum(deviation * deviation) / nullif(count(value) - 1, 0)) / nullif(avg(value), 0.0),
  CASE WHEN measure IN ('samples', 'memory_samples')
    THEN sqrt(avg(sample_weight) / nullif(median(value), 0.0)) END
FROM deviating
GROUP BY function_id, kernel, measure
HAVING count(value) > 0
