-- Floating-point operations of one launch, from hardware counters. A multiply-add counts as two.
--
-- Tensor core operations are counted by operand type, sparse ones as if dense. CUPTI's peak is that of sparse products,
-- twice that of dense ones (except fp64, which has no sparse ones). The peak here is the dense one: a sparse product
-- can take half the time that it allows. Thread operations are counted in patched code, in the set `sass` only. Integer
-- operations do not count.
CREATE VIEW launch_flops (
  kernel_id,
  -- Operations of the tensor cores. Null if not measured.
  tensor_flops,
  -- Time at the dense peak of their types, at the clock of the measurement, nanoseconds. Null if a peak is not known.
  tensor_ns,
  -- Thread operations in single, half and double precision. Null if one of them was not measured.
  thread_flops,
  -- Time at the peaks of their types, nanoseconds.
  thread_ns
) AS
WITH event AS (
  SELECT
    kernel_id, 'tensor' AS part, split_part(metric, '.', 1) AS type,
    CASE WHEN contains(metric, '.peak_') AND NOT contains(metric, 'src_fp64') THEN 0.5 ELSE 1.0 END * value AS value,
    contains(metric, '.peak_') AS is_peak
  FROM launch_counter
  WHERE starts_with(metric, 'sm__ops_path_tensor_src_') AND NOT starts_with(metric, 'sm__ops_path_tensor_src_int')
  UNION ALL
  -- Events are instructions of threads: smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.
  SELECT
    kernel_id, 'thread',
    CASE
      WHEN contains(metric, '_op_h') THEN 'half' WHEN contains(metric, '_op_d') THEN 'double' ELSE 'single'
    END,
    CASE WHEN contains(metric, 'fma_') THEN 2.0 ELSE 1.0 END * value,
    contains(metric, '.peak_')
  FROM launch_counter
  WHERE contains(metric, '__sass_thread_inst_executed_op_') AND split_part(split_part(metric, '_op_', 2), '_', 1)
    IN ('fadd', 'fmul', 'ffma', 'hadd', 'hmul', 'hfma', 'dadd', 'dmul', 'dfma')
), typed AS (
  SELECT
    kernel_id, part, type,
    sum(CASE WHEN is_peak THEN 0.0 ELSE value END) AS flops,
    sum(CASE WHEN is_peak THEN 0 ELSE 1 END) AS event_count,
    max(CASE WHEN is_peak THEN nullif(value, 0.0) END) AS peak
  FROM event
  GROUP BY kernel_id, part, type
), timed AS (
  SELECT *, CASE WHEN flops > 0.0 THEN flops * 1e9 / peak ELSE 0.0 END AS ns FROM typed
), summed AS (
  SELECT
    kernel_id, part,
    sum(flops) AS flops, sum(event_count) AS event_count, CASE WHEN count(ns) = count(*) THEN sum(ns) END AS ns
  FROM timed
  GROUP BY kernel_id, part
)
SELECT
  kernel_id,
  max(CASE WHEN part = 'tensor' AND event_count > 0 THEN flops END),
  max(CASE WHEN part = 'tensor' AND event_count > 0 THEN ns END),
  max(CASE WHEN part = 'thread' AND event_count = 9 THEN flops END),
  max(CASE WHEN part = 'thread' AND event_count = 9 THEN ns END)
FROM summed
GROUP BY kernel_id
