-- One kind of repeated launch: its first launch compared with the later ones, and its first step with the later steps.
--
-- Launches of one kind share kernel, grid, block and dynamic shared memory. See `launch_measure`. A launch counts as
-- slower or faster only if the difference is significant: the 95 % confidence intervals of its samples and of the later
-- median do not overlap.
CREATE VIEW first_launch (
  -- The kernel.
  function_id,
  -- Its source-level name.
  kernel,
  -- Grid and block, as in `launch_measure`.
  shape,
  -- Dynamic shared memory of a block, bytes.
  dynamic_shared_bytes,
  -- Launches whose cost was measured.
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
    kernel_id, function_id, kernel, shape, dynamic_shared_bytes, occurrence, step, samples, sample_weight,
    min(occurrence) OVER (PARTITION BY function_id, shape, dynamic_shared_bytes) AS first_occurrence,
    min(step) OVER (PARTITION BY function_id, shape, dynamic_shared_bytes) AS first_step
  FROM launch_measure
  WHERE is_sampled AND kind_launch_count > 1
), compared AS (
  SELECT
    function_id, kernel, shape, dynamic_shared_bytes,
    count(*) AS launch_count,
    max(CASE WHEN occurrence = first_occurrence THEN kernel_id END) AS first_kernel_id,
    max(CASE WHEN occurrence = first_occurrence THEN samples END) AS first_samples,
    max(CASE WHEN occurrence = first_occurrence THEN sample_weight END) AS first_weight,
    median(CASE WHEN occurrence > first_occurrence THEN samples END) AS later_samples,
    avg(CASE WHEN occurrence > first_occurrence THEN sample_weight END) AS later_weight,
    sum(CASE WHEN step = first_step THEN 1 ELSE 0 END) AS first_step_launches,
    median(CASE WHEN step = first_step THEN samples END) AS first_step_samples,
    median(CASE WHEN step > first_step THEN samples END) AS later_step_samples
  FROM measured
  GROUP BY function_id, kernel, shape, dynamic_shared_bytes
)
SELECT
  function_id, kernel, shape, dynamic_shared_bytes, launch_count, first_kernel_id, first_samples, later_samples,
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
