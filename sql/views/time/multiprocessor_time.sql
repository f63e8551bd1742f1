-- One multiprocessor in one launch whose blocks were timed: the blocks that it ran, and its time without them.
--
-- A slot holds one block at a time. `slots` of a multiprocessor are the blocks that had begun there before the first one
-- ended. Times of all slots together: `block_ns + start_ns + gap_ns + tail_ns + empty_ns = launch_slots * span_ns`.
CREATE VIEW multiprocessor_time (
  kernel_id,
  -- The run that measured it.
  run_id,
  -- The multiprocessor.
  multiprocessor,
  -- Blocks that it ran.
  block_count,
  -- Slots that it filled.
  slots,
  -- Most slots that a multiprocessor filled in the launch.
  launch_slots,
  -- Time from the launch's first begin to its last end.
  span_ns,
  -- Begin of its first block after the launch's first block.
  first_ns,
  -- End of its last block.
  last_ns,
  -- Time of its blocks, all slots together.
  block_ns,
  -- Time of filled slots before their first block.
  start_ns,
  -- Time of filled slots between blocks.
  gap_ns,
  -- Time of filled slots behind their last block.
  tail_ns,
  -- Time of slots that it never filled.
  empty_ns
) AS
WITH ended AS (
  SELECT
    kernel_id, run_id, multiprocessor, begin_ns, end_ns, duration_ns, multiprocessor_position, wave,
    CAST(row_number() OVER (PARTITION BY kernel_id, run_id, multiprocessor ORDER BY end_ns DESC, block) AS BIGINT) - 1
      AS from_last,
    sum(CASE WHEN wave = 0 THEN 1 ELSE 0 END) OVER (PARTITION BY kernel_id, run_id, multiprocessor) AS slots,
    max(end_ns) OVER (PARTITION BY kernel_id, run_id) AS span_ns
  FROM launch_block
), used AS (
  SELECT
    kernel_id, run_id, multiprocessor, slots, span_ns, count(*) AS block_count, min(begin_ns) AS first_ns,
    max(end_ns) AS last_ns, sum(duration_ns) AS block_ns,
    sum(CASE WHEN wave = 0 THEN begin_ns ELSE 0 END) AS start_ns,
    sum(CASE WHEN from_last < slots THEN span_ns - end_ns ELSE 0 END) AS tail_ns
  FROM ended
  GROUP BY kernel_id, run_id, multiprocessor, slots, span_ns
), held AS (
  SELECT *, max(slots) OVER (PARTITION BY kernel_id, run_id) AS launch_slots FROM used
)
SELECT
  kernel_id, run_id, multiprocessor, block_count, slots, launch_slots, span_ns, first_ns, last_ns, block_ns, start_ns,
  slots * span_ns - block_ns - start_ns - tail_ns, tail_ns, (launch_slots - slots) * span_ns
FROM held
