-- One block of one launch, in time: when it ran after the launch's first block, where, and in which order.
--
-- Recorded by `--blocks-timeline`, in a run of its own. Times begin with the launch's first block. Waves count the blocks
-- that a multiprocessor runs one after the other in each of its slots: as many run at once as had begun there before the
-- first one ended.
CREATE VIEW launch_block (
  kernel_id,
  -- The run that measured it.
  run_id,
  -- Linear block index: x + grid_x * (y + grid_y * z).
  block,
  -- The multiprocessor.
  multiprocessor,
  -- Begin, nanoseconds after the launch's first block.
  begin_ns,
  end_ns,
  -- Its length.
  duration_ns,
  -- Its place in the order of begins, from 0.
  position,
  -- Its place among the blocks of its multiprocessor, from 0.
  multiprocessor_position,
  -- Its wave, from 0.
  wave
) AS
WITH timed AS (
  SELECT
    kernel_id, run_id, CAST(block AS BIGINT) AS block, CAST(multiprocessor AS BIGINT) AS multiprocessor, begin_ns, end_ns,
    min(begin_ns) OVER (PARTITION BY kernel_id, run_id) AS first_ns,
    min(end_ns) OVER (PARTITION BY kernel_id, run_id, multiprocessor) AS first_end_ns,
    CAST(row_number() OVER (PARTITION BY kernel_id, run_id ORDER BY begin_ns, block) AS BIGINT) - 1 AS position,
    CAST(row_number() OVER (PARTITION BY kernel_id, run_id, multiprocessor ORDER BY begin_ns, block) AS BIGINT) - 1
      AS own_position
  FROM block_time
), slotted AS (
  SELECT
    *,
    sum(CASE WHEN begin_ns < first_end_ns THEN 1 ELSE 0 END)
      OVER (PARTITION BY kernel_id, run_id, multiprocessor) AS slots
  FROM timed
)
SELECT
  kernel_id, run_id, block, multiprocessor, begin_ns - first_ns, end_ns - first_ns, end_ns - begin_ns, position,
  own_position, own_position / nullif(slots, 0)
FROM slotted
