-- One way in which launches leave the GPU idle: too_few_blocks (all launches with fewer blocks than the GPU has
-- multiprocessors, on GPUs of one kind), low_occupancy and tail_wave (one kernel).
--
-- too_few_blocks: a quarter or more of the multiprocessors get no block, and such launches take a twentieth or more of
-- the time of all launches. Collectives do not count. Spread over all of them, the work would take at least the part of the time that is used now,
-- in as many samples: samples do not show the idle part, so both numbers are parts of the time of all launches, as
-- samples of the same part. Saving: the idle part of the time. low_occupancy: registers, shared memory or the
-- number of blocks exclude half of the warps or more, the grid would fill them, and a quarter or more of the samples
-- are memory stalls, which more warps would hide. Saving: these and the fixed latencies, times the part of the warps
-- that is excluded.
-- tail_wave: the grid fills the GPU more than once, and a fifth or more of the block slots stay empty at the end.
-- Saving: that part.
--
-- Time saved, for too_few_blocks by launches in steps alone: two fifths to all of the saving's part of the time. For too_few_blocks up to half of the remaining time more,
-- because more warps hide more latency. For blocks that are too small at least nothing: larger ones can wait as long.
CREATE VIEW finding_occupancy (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel. Null for several.
  kernel,
  -- The innermost user line around its launches, if there is only one. In backward, the line whose gradient this is,
  -- with (grad).
  line,
  -- The innermost op around its launches, if there is only one.
  op,
  -- No tensor: null.
  tensor_id,
  -- Samples of the launches. Of too_few_blocks, the part of all samples that the launches have of the time.
  samples,
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH fixed AS (
  SELECT kernel_id, sum(samples) AS samples FROM launch_sample WHERE stall_reason = 'wait' GROUP BY kernel_id
), whole AS (
  SELECT sum(samples) AS all_samples, sum(time_ns) AS all_ns, count(*) = count(time_ns) AS is_timed FROM sample_cost
), launched AS (
  SELECT
    l.kernel_id, l.function_id, n.kernel, n.short_kernel, v.name AS gpu, l.op,
    p.program_phase IN ('steady', 'once') AS is_steady,
    line_label(l.line, l.forward_line) AS line,
    c.samples, c.memory_samples, coalesce(x.samples, 0.0) AS fixed_samples, c.time_ns,
    o.limiter, o.occupancy, o.waves, o.tail_share, o.resident_blocks,
    o.block_warps, o.register_count, o.shared_bytes, o.idle_multiprocessor_share, o.multiprocessor_count,
    CASE
      WHEN o.idle_multiprocessor_share >= 0.25 THEN 'too_few_blocks'
      WHEN o.occupancy <= 0.5 AND o.limiter <> 'warps' AND o.waves >= 1 AND c.memory_samples >= 0.25 * c.samples
        THEN 'low_occupancy'
      WHEN o.waves > 1 AND o.tail_share >= 0.2 THEN 'tail_wave'
    END AS finding,
    q.kernel_id IS NOT NULL AS is_counted
  FROM launch_occupancy o
  JOIN launch_context l ON l.kernel_id = o.kernel_id
  JOIN sample_cost c ON c.kernel_id = o.kernel_id
  LEFT JOIN fixed x ON x.kernel_id = o.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
  LEFT JOIN device v ON v.run_id = l.run_id AND v.device_id = l.device_id
  LEFT JOIN launch_phase p ON p.kernel_id = l.kernel_id
  LEFT JOIN program_launch q ON q.kernel_id = l.kernel_id
  -- Collectives use few multiprocessors on purpose.
  WHERE NOT coalesce(regexp_like(l.kernel, '^nccl(Dev)?Kernel|ncclSymk|nvshmem'), false)
), saved AS (
  SELECT
    *,
    CASE WHEN finding = 'too_few_blocks' AND is_timed THEN time_ns / all_ns * all_samples ELSE samples END AS part,
    CASE finding WHEN 'too_few_blocks'
      THEN CASE WHEN is_timed THEN time_ns / all_ns * all_samples ELSE samples END * idle_multiprocessor_share
      WHEN 'low_occupancy' THEN (memory_samples + fixed_samples) * (1 - occupancy) ELSE samples * tail_share END AS saving_samples,
    -- Without samples, the idle part of the time.
    time_ns * CASE finding WHEN 'too_few_blocks' THEN idle_multiprocessor_share ELSE tail_share END AS idle_ns,
    -- All launches that leave multiprocessors idle are one finding.
    CASE WHEN finding <> 'too_few_blocks' THEN function_id END AS subject_function_id
  FROM launched
  CROSS JOIN whole
  WHERE finding IS NOT NULL AND (finding <> 'too_few_blocks' OR is_counted)
), ranked AS (
  -- The costliest kernel is that with most samples, without samples that with most time. Samples do not show idle
  -- multiprocessors.
  SELECT
    *, sum(CASE WHEN all_samples > 0.0 AND NOT (finding = 'too_few_blocks' AND is_timed) THEN samples ELSE coalesce(time_ns, 0.0) END)
      OVER (PARTITION BY finding, gpu, function_id) AS weight
  FROM saved
), summed AS (
  SELECT
    finding, gpu, subject_function_id,
    count(DISTINCT kernel_id) AS launches, count(DISTINCT function_id) AS kernels,
    first_value(function_id ORDER BY weight DESC, function_id) AS function_id,
    first_value(kernel ORDER BY weight DESC, function_id) AS kernel,
    first_value(short_kernel ORDER BY weight DESC, function_id) AS short_kernel,
    first_value(limiter ORDER BY weight DESC, function_id) AS limiter,
    first_value(resident_blocks ORDER BY weight DESC, function_id) AS resident_blocks,
    first_value(block_warps ORDER BY weight DESC, function_id) AS block_warps,
    first_value(register_count ORDER BY weight DESC, function_id) AS register_count,
    first_value(shared_bytes ORDER BY weight DESC, function_id) AS shared_bytes,
    first_value(waves ORDER BY weight DESC, function_id) AS waves,
    first_value(tail_share ORDER BY weight DESC, function_id) AS tail_share,
    first_value(occupancy ORDER BY weight DESC, function_id) AS occupancy,
    max(multiprocessor_count) AS multiprocessor_count,
    CASE WHEN count(DISTINCT line) = 1 THEN max(line) END AS line,
    CASE WHEN count(DISTINCT op) = 1 THEN max(op) END AS op,
    sum(part) AS samples, sum(saving_samples) AS saving_samples, sum(time_ns) AS time_ns, sum(idle_ns) AS idle_ns,
    sum(CASE WHEN is_steady THEN time_ns END) AS steady_ns, sum(CASE WHEN is_steady THEN idle_ns END) AS steady_idle_ns
  FROM ranked
  GROUP BY finding, gpu, subject_function_id
)
SELECT
  finding,
  CASE finding WHEN 'too_few_blocks' THEN CAST(launches AS VARCHAR) || ' launches of ' || CAST(kernels AS VARCHAR)
    || CASE kernels WHEN 1 THEN ' kernel' ELSE ' kernels' END ELSE short_kernel END,
  CASE finding
    WHEN 'too_few_blocks' THEN CAST(launches AS VARCHAR)
      || CASE launches WHEN 1 THEN ' launch has' ELSE ' launches have' END || ' too few blocks for the '
      || CAST(multiprocessor_count AS VARCHAR) || ' multiprocessors of the ' || coalesce(gpu, 'GPU')
      || ': a quarter or more of the multiprocessors is idle. The costliest is ' || short_kernel
    WHEN 'low_occupancy' THEN short_kernel || ' waits for memory with ' || CAST(resident_blocks * block_warps AS VARCHAR)
      || ' warps on a multiprocessor, ' || CAST(CAST(round(occupancy * 100) AS BIGINT) AS VARCHAR)
      || ' % occupancy: ' || CASE limiter
        WHEN 'registers' THEN 'a thread uses ' || CAST(register_count AS VARCHAR) || ' registers'
        WHEN 'shared memory' THEN 'a block uses ' || CAST(shared_bytes AS VARCHAR) || ' bytes of shared memory'
        ELSE 'blocks of ' || CAST(block_warps AS VARCHAR) || ' warps are too small' END
    ELSE short_kernel || ' fills the GPU ' || CAST(CAST(waves AS DECIMAL(9, 2)) AS VARCHAR) || ' times: '
      || CAST(CAST(round(tail_share * 100) AS BIGINT) AS VARCHAR)
      || ' % of its block slots are empty at the end'
  END || coalesce(', launched at ' || line, '') || '.',
  CASE finding
    WHEN 'too_few_blocks' THEN CAST(launches AS VARCHAR) || CASE launches WHEN 1 THEN ' launch leaves' ELSE ' launches leave' END
      || ' a quarter or more of ' || CAST(multiprocessor_count AS VARCHAR) || ' multiprocessors idle'
    WHEN 'low_occupancy' THEN short_kernel || ': ' || CAST(CAST(round(occupancy * 100) AS BIGINT) AS VARCHAR)
      || ' % occupancy, limited by ' || limiter
    ELSE short_kernel || ': ' || CAST(CAST(round(tail_share * 100) AS BIGINT) AS VARCHAR)
      || ' % of block slots empty at the end'
  END,
  CASE finding
    WHEN 'too_few_blocks' THEN 'Give a launch more work (larger batches), split it over more blocks, or let several run at '
      || 'once: fused, in streams, or by a CUDA graph.'
    WHEN 'low_occupancy' THEN CASE limiter
      WHEN 'registers' THEN 'Reduce the registers of a thread (__launch_bounds__, smaller tiles), or keep more loads in flight.'
      WHEN 'shared memory' THEN 'Reduce the shared memory of a block: smaller tiles, fewer stages, a smaller type.'
      ELSE 'Use larger blocks.' END
    ELSE 'Choose a grid that fills whole waves (smaller or larger tiles, or blocks that loop: a persistent kernel).'
  END,
  CASE kernels WHEN 1 THEN kernel END, line, op, CAST(NULL AS BIGINT UNSIGNED), samples, saving_samples, time_ns,
  CASE WHEN finding = 'low_occupancy' AND limiter NOT IN ('registers', 'shared memory') THEN 0.0 ELSE 0.4 END
    * CASE finding WHEN 'too_few_blocks' THEN steady_idle_ns
      ELSE coalesce(time_ns * saving_samples / nullif(samples, 0.0), idle_ns) END AS saving_low_ns,
  -- More warps hide more latency, also where blocks are.
  CASE finding WHEN 'too_few_blocks' THEN 0.5 * (steady_ns + steady_idle_ns)
    ELSE coalesce(time_ns * saving_samples / nullif(samples, 0.0), idle_ns) END AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  CASE finding
    WHEN 'too_few_blocks' THEN 'SELECT o.*, t.time_ns FROM launch_occupancy o JOIN launch_time t ON t.kernel_id = o.kernel_id '
      || 'JOIN launch_context l ON l.kernel_id = o.kernel_id JOIN program_launch p ON p.kernel_id = o.kernel_id '
      || 'WHERE o.idle_multiprocessor_share >= 0.25 AND o.kernel_id IN (SELECT kernel_id FROM sample_cost) AND NOT regexp_like(coalesce(l.kernel, ''''), ''^nccl(Dev)?Kernel|ncclSymk|nvshmem'') '
      || 'ORDER BY t.time_ns DESC NULLS LAST, o.kernel_id'
    ELSE 'SELECT o.* FROM launch_occupancy o WHERE o.function_id = ' || CAST(function_id AS VARCHAR) END
FROM summed
CROSS JOIN whole
-- Launches that take no time to speak of cost nothing, however few their blocks.
WHERE finding <> 'too_few_blocks' OR all_ns IS NULL OR time_ns IS NULL OR time_ns >= 0.05 * all_ns
