-- Do launches of one kernel cost the same, and is the first one slower?
-- first is the samples of the first launch of a shape, later the median of the rest. The verdict is `same` if the
-- difference is not significant. spread_percent is the variation over all launches of the kernel, chance_percent the
-- variation that Poisson counts alone give.
-- Capture: transformer_step
SELECT
  n.short_kernel AS kernel, f.shape, f.launch_count AS launches, round(f.first_samples, 1) AS first,
  round(f.later_samples, 1) AS later, f.verdict, round(f.step_ratio, 2) AS first_step_by_later,
  round(100.0 * k.spread, 1) AS spread_percent, round(100.0 * k.chance_spread, 1) AS chance_percent
FROM first_launch f
JOIN kernel_name n ON n.function_id = f.function_id
JOIN kernel_spread k ON k.function_id = f.function_id AND k.measure = 'samples'
ORDER BY abs(f.first_samples - f.later_samples) DESC, kernel, f.shape
LIMIT 6
