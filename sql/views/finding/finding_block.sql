-- One way in which the blocks of one kernel leave multiprocessors without work, as timed by `--blocks-timeline`: tail_wave,
-- uneven_blocks, late_blocks.
--
-- Launches of 5 us or more count, with blocks on every multiprocessor. tail_wave: 15 % or more of the slots' time lies behind
-- their last block, and the block that ends last belongs to the last wave. uneven_blocks: the same, but that block belongs to an
-- earlier wave or the only one, or takes half as long again as the mean of its wave. late_blocks: 10 % or more of the slots' time
-- lies before their first block.
-- Saving: that part of the launches' time. Least: two fifths of it, because blocks that run alone are faster, or nothing for
-- late blocks.
CREATE VIEW finding_block (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel.
  kernel,
  -- The innermost user line around its launches, if there is only one. In backward, the line whose gradient this is,
  -- with (grad).
  line,
  -- The innermost op around its launches, if there is only one.
  op,
  -- No tensor: null.
  tensor_id,
  -- 0: the times of blocks measure it.
  samples,
  -- 0.
  saving_samples,
  -- GPU time of the launches, nanoseconds.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH newest AS (
  SELECT kernel_id, max(run_id) AS run_id FROM block_time GROUP BY kernel_id
), waved AS (
  SELECT kernel_id, run_id, wave, avg(duration_ns) AS mean_ns FROM launch_block GROUP BY kernel_id, run_id, wave
), last AS (
  SELECT
    kernel_id, run_id, max(wave) AS last_wave, first_value(wave ORDER BY end_ns DESC, block) AS wave,
    first_value(duration_ns ORDER BY end_ns DESC, block) AS duration_ns, first_value(block ORDER BY end_ns DESC, block) AS block
  FROM launch_block
  GROUP BY kernel_id, run_id
), judged AS (
  SELECT
    b.*, e.block AS last_block, e.duration_ns AS last_ns, coalesce(t.time_ns, b.span_ns) AS time_ns,
    e.wave < e.last_wave OR e.last_wave = 0 OR e.duration_ns >= 1.5 * w.mean_ns AS is_uneven
  FROM launch_balance b
  JOIN newest n ON n.kernel_id = b.kernel_id AND n.run_id = b.run_id
  JOIN last e ON e.kernel_id = b.kernel_id AND e.run_id = b.run_id
  JOIN waved w ON w.kernel_id = b.kernel_id AND w.run_id = b.run_id AND w.wave = e.wave
  LEFT JOIN launch_time t ON t.kernel_id = b.kernel_id
  WHERE b.span_ns >= 5000 AND b.used_multiprocessors = b.multiprocessor_count AND b.timed_blocks = b.block_count
), found AS (
  SELECT CASE WHEN is_uneven THEN 'uneven_blocks' ELSE 'tail_wave' END AS finding, tail_share AS part, 0.4 AS least, *
  FROM judged
  WHERE tail_share >= 0.15
  UNION ALL
  SELECT 'late_blocks', start_share AS part, 0.0, * FROM judged WHERE start_share >= 0.1
), launched AS (
  SELECT f.*, l.function_id, k.kernel, k.short_kernel, line_label(l.line, l.forward_line) AS line, l.op
  FROM found f
  JOIN launch_context l ON l.kernel_id = f.kernel_id
  LEFT JOIN kernel_name k ON k.function_id = l.function_id
  WHERE NOT coalesce(regexp_like(l.kernel, '^nccl(Dev)?Kernel|ncclSymk|nvshmem'), false)
), summed AS (
  SELECT
    finding, function_id, kernel, short_kernel, count(*) AS launches, sum(time_ns) AS time_ns, sum(part * time_ns) AS saved_ns,
    sum(least * part * time_ns) AS least_ns,
    first_value(waves ORDER BY part * time_ns DESC, kernel_id) AS waves,
    first_value(last_block ORDER BY part * time_ns DESC, kernel_id) AS last_block,
    first_value(last_ns / mean_block_ns ORDER BY part * time_ns DESC, kernel_id) AS ratio,
    CASE WHEN count(DISTINCT line) = 1 THEN max(line) END AS line, CASE WHEN count(DISTINCT op) = 1 THEN max(op) END AS op
  FROM launched
  GROUP BY finding, function_id, kernel, short_kernel
), worded AS (
  SELECT
    *,
    CAST(CAST(round(100 * saved_ns / time_ns) AS BIGINT) AS VARCHAR) || CASE finding
      WHEN 'tail_wave' THEN ' % of block slots'' time is behind their last block: the grid is '
        || CAST(CAST(waves AS DECIMAL(9, 2)) AS VARCHAR) || ' waves'
      WHEN 'uneven_blocks' THEN ' % of block slots'' time is behind their last block: block ' || CAST(last_block AS VARCHAR)
        || ' ends last and takes ' || CAST(CAST(ratio AS DECIMAL(9, 1)) AS VARCHAR) || ' times the mean'
      ELSE ' % of block slots'' time is before their first block' END AS fact
  FROM summed
)
SELECT
  finding, short_kernel,
  short_kernel || coalesce(', launched at ' || line, '') || ': ' || fact
    || CASE WHEN launches > 1 THEN ', in ' || CAST(launches AS VARCHAR) || ' launches' ELSE '' END || '.',
  short_kernel || ': ' || fact,
  CASE finding
    WHEN 'tail_wave' THEN 'Choose a grid that fills whole waves (smaller or larger tiles, or blocks that loop: a persistent kernel).'
    WHEN 'uneven_blocks' THEN 'Divide the work of long blocks, start them first, or let blocks take tiles from a counter.'
    ELSE 'Launch fewer blocks with more work each, or let the launch begin before the one before it ends (programmatic dependent launch).'
  END,
  kernel, line, op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id, 0.0 AS samples, 0.0 AS saving_samples, CAST(time_ns AS DOUBLE),
  least_ns AS saving_low_ns, saved_ns AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT b.* FROM launch_balance b JOIN launch l ON l.kernel_id = b.kernel_id WHERE l.function_id = '
    || CAST(function_id AS VARCHAR) || ' ORDER BY b.kernel_id, b.run_id'
FROM worded
