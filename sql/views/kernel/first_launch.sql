-- One kind of repeated launch: its first launch compared with the later ones, and its first step with the later steps.
--
-- Launches of one kind share kernel, grid, block and dynamic shared memory. See `launch_measure`. Only those count that
-- did as much work as the first one: their accessed bytes differ by 1 % or less. Without recorded accesses, their
-- parameters are identical. A launch counts as slower or faster only if the difference is significant: the 95 %
-- confidence intervals of its samples and of the later median do not overlap.
CREATE VIEW first_launch (
  -- The kernel.
  function_id,
  kernel,
  -- Grid and block, as in `launch_measure`.
  shape,
  -- Dynamic shared memory of a block, bytes.
  dynamic_shared_bytes,
  -- Launches of its kind whose cost was measured.
  kind_launch_count,
  -- Launches among these that did as much work as the first one, with it.
  launch_count,
  -- The first one.
  first_kernel_id,
  -- Its samples.
  first_samples,
  -- Median of the samples of the later ones.
  later_samples,
  -- The first launch's samples divided by that median.
  ratio,
  -- slower, faster, or the same if the difference is not significant.
  verdict,
  -- Launches of the earliest step that has some. Null if it is the only step.
  first_step_launch_count,
  -- Median of their samples.
  first_step_samples,
  -- Median of the samples of the later steps.
  later_step_samples,
  -- The earliest step's median divided by that of the later steps.
  step_ratio
) AS
WITH measured AS (
  SELECT
    m.kernel_id, m.function_id, m.kernel, m.shape, m.dynamic_shared_bytes, m.occurrence, m.step, m.samples,
    m.sample_weight, m.accessed_bytes, p.bytes AS parameters
  FROM launch_measure m
  LEFT JOIN launch_parameter p ON p.kernel_id = m.kernel_id
  WHERE m.is_sampled AND m.kind_launch_count > 1
), following AS (
  SELECT
    *,
    count(*) OVER kind AS kind_launch_count,
    first_value(occurrence) OVER turn AS first_occurrence,
    first_value(accessed_bytes) OVER turn AS first_bytes,
    first_value(parameters) OVER turn AS first_parameters
  FROM measured
  WINDOW kind AS (PARTITION BY function_id, shape, dynamic_shared_bytes),
    turn AS (PARTITION BY function_id, shape, dynamic_shared_bytes ORDER BY occurrence)
), equal AS (
  SELECT
    *,
    min(step) OVER (PARTITION BY function_id, shape, dynamic_shared_bytes) AS first_step
  FROM following
  WHERE occurrence = first_occurrence OR CASE
    WHEN accessed_bytes IS NULL OR first_bytes IS NULL THEN parameters = first_parameters
    ELSE abs(CAST(accessed_bytes AS DOUBLE) - CAST(first_bytes AS DOUBLE)) <= 0.01 * CAST(first_bytes AS DOUBLE) END
), compared AS (
  SELECT
    function_id, kernel, shape, dynamic_shared_bytes,
    max(kind_launch_count) AS kind_launch_count,
    count(*) AS launch_count,
    max(CASE WHEN occurrence = first_occurrence THEN kernel_id END) AS first_kernel_id,
    max(CASE WHEN occurrence = first_occurrence THEN samples END) AS first_samples,
    max(CASE WHEN occurrence = first_occurrence THEN sample_weight END) AS first_weight,
    median(CASE WHEN occurrence > first_occurrence THEN samples END) AS later_samples,
    avg(CASE WHEN occurrence > first_occurrence THEN sample_weight END) AS later_weight,
    sum(CASE WHEN step = first_step THEN 1 ELSE 0 END) AS first_step_launches,
    median(CASE WHEN step = first_step THEN samples END) AS first_step_samples,
    median(CASE WHEN step > first_step THEN samples END) AS later_step_samples
  FROM equal
  GROUP BY function_id, kernel, shape, dynamic_shared_bytes
)
SELECT
  function_id, kernel, shape, dynamic_shared_bytes, kind_launch_count, launch_count, first_kernel_id, first_samples, later_samples,
  first_samples / nullif(later_samples, 0.0),
  CASE
    WHEN poisson_low(first_samples / first_weight) * first_weight
      > poisson_high(later_samples / later_weight) * later_weight THEN 'slower'
    WHEN poisson_high(first_samples / first_weight) * first_weight
      < poisson_low(later_samples / later_weight) * later_weight THEN 'faster'
    ELSE 'the same'
  END,
  CASE WHEN later_step_samples IS NOT NULL THEN first_step_launches END,
  CASE WHEN later_step_samples IS NOT NULL THEN first_step_samples END,
  later_step_samples,
  first_step_samples / nullif(later_step_samples, 0.0)
FROM compared
WHERE launch_count > 1
