-- One launch whose blocks were timed: how evenly its blocks fill the GPU, as shares of the time of all block slots.
--
-- The shares of blocks, starts, gaps, tails and empty slots add up to 1. A long tail with few waves: the grid is a little
-- larger than the GPU holds at once. A long tail and a high imbalance: some blocks have more work than the rest.
CREATE VIEW launch_balance (
  kernel_id,
  -- The run that measured it.
  run_id,
  -- Blocks with a time.
  timed_blocks,
  -- Blocks of the grid.
  block_count,
  -- Multiprocessors that ran a block.
  used_multiprocessors,
  -- Multiprocessors of the GPU. Null where it is not known.
  multiprocessor_count,
  -- The most blocks that a multiprocessor ran at once.
  slots,
  -- Blocks of the launch divided by those that ran at once.
  waves,
  -- Time from the first begin to the last end, nanoseconds.
  span_ns,
  -- Mean length of a block, nanoseconds.
  mean_block_ns,
  -- Length of the longest block, nanoseconds.
  longest_block_ns,
  -- The longest block's length divided by the mean.
  imbalance,
  -- Part of the slots' time with a block.
  block_share,
  -- Part before the first block of a slot.
  start_share,
  -- Part between blocks.
  gap_share,
  -- Part behind the last block of a slot.
  tail_share,
  -- Part of slots that never had a block, those of unused multiprocessors too.
  empty_share
) AS
WITH used AS (
  SELECT
    kernel_id, run_id, span_ns, launch_slots, count(*) AS multiprocessors, sum(block_count) AS timed_blocks,
    sum(block_ns) AS block_ns, sum(start_ns) AS start_ns, sum(gap_ns) AS gap_ns, sum(tail_ns) AS tail_ns,
    sum(empty_ns) AS empty_ns
  FROM multiprocessor_time
  GROUP BY kernel_id, run_id, span_ns, launch_slots
), longest AS (
  SELECT kernel_id, run_id, max(duration_ns) AS ns FROM launch_block GROUP BY kernel_id, run_id
), filled AS (
  SELECT
    u.*, n.ns AS longest_ns, CAST(l.grid_x AS BIGINT) * l.grid_y * l.grid_z AS grid_blocks,
    CAST(d.multiprocessor_count AS BIGINT) AS device_count,
    greatest(coalesce(CAST(d.multiprocessor_count AS BIGINT), u.multiprocessors), u.multiprocessors) AS all_count
  FROM used u
  JOIN longest n ON n.kernel_id = u.kernel_id AND n.run_id = u.run_id
  JOIN launch l ON l.kernel_id = u.kernel_id
  LEFT JOIN device d ON d.run_id = l.run_id AND d.device_id = l.device_id
), shared AS (
  SELECT *, nullif(CAST(all_count AS DOUBLE) * launch_slots * span_ns, 0.0) AS slot_ns FROM filled
)
SELECT
  kernel_id, run_id, timed_blocks, grid_blocks, multiprocessors, device_count, launch_slots,
  timed_blocks / nullif(CAST(launch_slots AS DOUBLE) * all_count, 0.0),
  span_ns, CAST(block_ns AS DOUBLE) / timed_blocks, longest_ns,
  longest_ns / nullif(CAST(block_ns AS DOUBLE) / timed_blocks, 0.0),
  block_ns / slot_ns, start_ns / slot_ns, gap_ns / slot_ns, tail_ns / slot_ns,
  (empty_ns + CAST(all_count - multiprocessors AS DOUBLE) * launch_slots * span_ns) / slot_ns
FROM shared
