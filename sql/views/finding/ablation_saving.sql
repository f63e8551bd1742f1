-- One tensor in one kernel: the time that all accesses to it cost, by experiments.
CREATE VIEW ablation_saving (
  -- Tensor and kernel, as findings name them.
  subject,
  -- Part of the launches' time: the larger one of warm and flushed caches.
  measured_share,
  -- The same as samples, by the samples that wait for the accesses.
  saved_per_sample
) AS
WITH ablated AS (
  SELECT
    a.label || ' in ' || n.short_kernel AS subject,
    greatest(sum(a.saved_ns) / sum(a.whole_ns), 0.0) AS measured_share,
    greatest(sum(a.saved_share * a.waited_samples / a.waited_share) / sum(a.waited_samples), 0.0) AS saved_per_sample
  FROM ablation_cost a
  JOIN kernel_name n ON n.function_id = a.function_id
  WHERE a.target = 'tensor' AND a.saved_ns IS NOT NULL AND a.waited_share > 0.0
  GROUP BY a.label, n.short_kernel, a.is_cold
)
SELECT subject, max(measured_share), max(saved_per_sample)
FROM ablated
GROUP BY subject
