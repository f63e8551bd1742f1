-- One experiment of `stallmap-record replay --redirect`: the time that device memory costs for one object, next to the
-- samples that are attributed to it.
--
-- `saved_share` is measured, `charged_share` is the cost of the object by `traffic_charge`. The samples contain the
-- latency of L2, which the experiment leaves in place. `ablated_ns` is the cost of all accesses, measured by `--ablate`:
-- less `saved_ns`, it is the cost of L2 and of the instructions.
CREATE VIEW redirect_cost (
  -- The run of the experiments.
  run_id,
  kernel_id,
  -- The n-th experiment on this launch in the run.
  experiment,
  -- Memory that is in L2: object, or all that the launch only reads.
  target,
  -- alias (granules of 2 MiB mapped to few), preload (read before the launch), both (for all). Null if refused.
  method,
  is_cold,
  -- The launch's kernel.
  function_id,
  -- True if the kernel copies by tensor maps or by bulk copies.
  has_copies,
  -- The storage of the object. Null for memory outside storages.
  storage_id,
  -- The driver allocation of an object without a storage.
  allocation_id,
  -- Label of the object: of the tensor in it that costs most. Null for all.
  label,
  -- Bytes of its pages that the launch reads.
  object_bytes,
  -- The part of these that was in L2.
  redirected_share,
  -- Replays of each of the two.
  round_count,
  -- Time of the launch, nanoseconds: the median.
  whole_ns,
  -- Cost of device memory, nanoseconds. Null where nothing was measured.
  saved_ns,
  -- Lower end of its 95 % confidence interval.
  saved_low_ns,
  -- Upper end of its 95 % confidence interval.
  saved_high_ns,
  -- `saved_ns` as a share of the launch's time.
  saved_share,
  -- Cost of all accesses of the object by `ablation`, as that share of the time here, nanoseconds. Null without one.
  ablated_ns,
  -- Samples of the launch that the object costs.
  samples,
  -- Their share of all samples of the launch. Null without samples.
  charged_share,
  -- Samples of warps that wait for it.
  waited_samples,
  -- The reason that nothing was measured.
  refusal
) AS
WITH alive AS (
  SELECT kernel_id, run_id, function_id, coalesce(capture_ordinal, ordinal) AS ordinal FROM launch
), block AS (
  SELECT DISTINCT r.kernel_id, r.block_address, l.run_id, l.ordinal
  FROM redirect r
  JOIN alive l ON l.kernel_id = r.kernel_id
  WHERE r.block_address IS NOT NULL
), stored AS (
  SELECT b.kernel_id, b.block_address, max(s.storage_id) AS storage_id
  FROM block b
  JOIN storage s ON s.address = b.block_address AND s.run_id = b.run_id
  WHERE s.alloc_ordinal <= b.ordinal AND (s.free_ordinal IS NULL OR b.ordinal < s.free_ordinal)
  GROUP BY b.kernel_id, b.block_address
), allocated AS (
  SELECT b.kernel_id, b.block_address, max(a.allocation_id) AS allocation_id
  FROM block b
  JOIN device_allocation a ON a.run_id = b.run_id
  WHERE a.address <= b.block_address AND b.block_address < a.address + a.size_bytes AND a.alloc_ordinal <= b.ordinal
    AND (a.free_ordinal IS NULL OR b.ordinal < a.free_ordinal)
  GROUP BY b.kernel_id, b.block_address
), object AS (
  SELECT
    b.kernel_id, b.block_address, s.storage_id, CASE WHEN s.storage_id IS NULL THEN a.allocation_id END AS allocation_id
  FROM block b
  LEFT JOIN stored s ON s.kernel_id = b.kernel_id AND s.block_address = b.block_address
  LEFT JOIN allocated a ON a.kernel_id = b.kernel_id AND a.block_address = b.block_address
), charge AS (
  SELECT
    o.kernel_id, o.block_address, c.tensor_id, sum(c.samples) AS samples, sum(c.waited_samples) AS waited_samples
  FROM object o
  JOIN traffic_charge c ON c.kernel_id = o.kernel_id
    AND (c.storage_id = o.storage_id OR (c.storage_id IS NULL AND c.allocation_id = o.allocation_id))
  GROUP BY o.kernel_id, o.block_address, c.tensor_id
), charged AS (
  SELECT
    kernel_id, block_address, sum(samples) AS samples, sum(waited_samples) AS waited_samples,
    first_value(tensor_id ORDER BY tensor_id IS NULL, samples DESC, tensor_id) AS tensor_id
  FROM charge
  GROUP BY kernel_id, block_address
), first_view AS (
  SELECT storage_id, first_value(tensor_id ORDER BY span_bytes DESC, tensor_id) AS tensor_id FROM tensor GROUP BY storage_id
), named AS (
  SELECT
    o.kernel_id, o.block_address, o.storage_id, o.allocation_id,
    coalesce(t.label, s.label, a.label) AS label, c.samples, c.waited_samples
  FROM object o
  LEFT JOIN charged c ON c.kernel_id = o.kernel_id AND c.block_address = o.block_address
  LEFT JOIN first_view v ON v.storage_id = o.storage_id
  LEFT JOIN target_context t ON t.target = 'tensor' AND t.object_id = coalesce(c.tensor_id, v.tensor_id)
  LEFT JOIN target_context s ON s.target = 'storage' AND s.object_id = o.storage_id
  LEFT JOIN target_context a ON a.target = 'outside any tensor' AND a.object_id = o.allocation_id
), part AS (
  -- All objects of a launch have the samples of each.
  SELECT r.run_id, r.kernel_id, r.experiment, r.is_cold, n.samples, n.waited_samples
  FROM redirect r
  JOIN named n ON n.kernel_id = r.kernel_id AND n.block_address = r.block_address
  UNION ALL
  SELECT a.run_id, a.kernel_id, a.experiment, a.is_cold, n.samples, n.waited_samples
  FROM redirect a
  JOIN (SELECT DISTINCT run_id, kernel_id, block_address FROM redirect WHERE refusal IS NULL) r
    ON r.run_id = a.run_id AND r.kernel_id = a.kernel_id
  JOIN named n ON n.kernel_id = r.kernel_id AND n.block_address = r.block_address
  WHERE a.target = 'all'
), summed AS (
  SELECT run_id, kernel_id, experiment, is_cold, sum(samples) AS samples, sum(waited_samples) AS waited_samples
  FROM part
  GROUP BY run_id, kernel_id, experiment, is_cold
), total AS (
  SELECT kernel_id, sum(samples) AS samples FROM sample GROUP BY kernel_id
), ablated AS (
  SELECT kernel_id, block_address, is_cold, max(saved_ns / nullif(whole_ns, 0.0)) AS share
  FROM ablation
  WHERE target = 'tensor' AND saved_ns IS NOT NULL
  GROUP BY kernel_id, block_address, is_cold
), copying AS (
  SELECT DISTINCT kernel_id FROM launch_copy
)
SELECT
  r.run_id, r.kernel_id, r.experiment, r.target, r.method, r.is_cold, l.function_id, p.kernel_id IS NOT NULL,
  n.storage_id, n.allocation_id, n.label, r.object_bytes, r.redirected_bytes / nullif(CAST(r.object_bytes AS DOUBLE), 0.0),
  r.round_count, r.whole_ns, r.saved_ns, r.saved_low_ns, r.saved_high_ns, r.saved_ns / nullif(r.whole_ns, 0.0),
  b.share * r.whole_ns, coalesce(s.samples, 0.0), CASE WHEN t.samples > 0.0 THEN coalesce(s.samples, 0.0) / t.samples END,
  coalesce(s.waited_samples, 0.0), r.refusal
FROM redirect r
JOIN alive l ON l.kernel_id = r.kernel_id
LEFT JOIN named n ON n.kernel_id = r.kernel_id AND n.block_address = r.block_address
LEFT JOIN summed s
  ON s.run_id = r.run_id AND s.kernel_id = r.kernel_id AND s.experiment = r.experiment AND s.is_cold = r.is_cold
LEFT JOIN total t ON t.kernel_id = r.kernel_id
LEFT JOIN ablated b ON b.kernel_id = r.kernel_id AND b.block_address = r.block_address AND b.is_cold = r.is_cold
LEFT JOIN copying p ON p.kernel_id = r.kernel_id
