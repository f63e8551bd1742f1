-- One launch with everything that it only reads in L2: the time that device memory costs, next to the causes of its memory
-- stalls.
--
-- A launch whose stalls end at arithmetic should lose little time. `is_right` is false where arithmetic has most of the
-- memory stalls and device memory costs a tenth of the time or more.
CREATE VIEW redirect_launch (
  -- The run of the experiments.
  run_id,
  kernel_id,
  is_cold,
  -- The launch's kernel.
  function_id,
  -- True if the kernel copies by tensor maps or by bulk copies.
  has_copies,
  -- The part of the bytes that was in L2. A refused object lowers it.
  redirected_share,
  -- Time of the launch, nanoseconds: the median.
  whole_ns,
  -- Time that it saves, as a share.
  saved_share,
  -- Lower end of its 95 % confidence interval.
  saved_share_low,
  -- Upper end of its 95 % confidence interval.
  saved_share_high,
  -- Part of the launch's memory stalls that reach an object. Null without such stalls.
  object_stall_share,
  -- Part that ends at arithmetic or tensor cores.
  arithmetic_stall_share,
  -- False if most memory stalls end at arithmetic and device memory costs a tenth of the time.
  is_right
) AS
WITH counted AS (
  -- A launch that reads one object has no experiment on all.
  SELECT *, max(CASE WHEN target = 'all' THEN 1 ELSE 0 END) OVER (PARTITION BY run_id, kernel_id) AS has_all
  FROM redirect_cost
), chosen AS (
  SELECT * FROM counted WHERE saved_ns IS NOT NULL AND (target = 'all' OR has_all = 0)
), stalled AS (
  SELECT
    kernel_id, sum(samples) AS samples,
    sum(CASE WHEN coalesce(tensor_id, storage_id, allocation_id) IS NOT NULL THEN samples ELSE 0.0 END) AS object_samples,
    sum(CASE WHEN target IN ('arithmetic', 'tensor cores') THEN samples ELSE 0.0 END) AS arithmetic_samples
  FROM launch_charge
  WHERE is_memory
  GROUP BY kernel_id
)
SELECT
  c.run_id, c.kernel_id, c.is_cold, c.function_id, c.has_copies, c.redirected_share, c.whole_ns, c.saved_share,
  c.saved_low_ns / nullif(c.whole_ns, 0.0), c.saved_high_ns / nullif(c.whole_ns, 0.0),
  s.object_samples / nullif(s.samples, 0.0), s.arithmetic_samples / nullif(s.samples, 0.0),
  NOT (coalesce(s.arithmetic_samples / nullif(s.samples, 0.0), 0.0) > 0.5 AND c.saved_share >= 0.1)
FROM chosen c
LEFT JOIN stalled s ON s.kernel_id = c.kernel_id
