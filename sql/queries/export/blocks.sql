-- Blocks
-- One row per block with a time, of the first launches up to 200,000 blocks, in the order of begins. Times are those of
-- the launch's kernel in the timeline, if there is one: the run that timed blocks ran later. blocks: all that have a time.
WITH timed AS (
  SELECT
    kernel_id, begin_ns, row_number() OVER (PARTITION BY kernel_id ORDER BY run_id, begin_ns, activity_id) AS place
  FROM gpu_activity
  WHERE kernel_id IS NOT NULL
), first AS (
  SELECT kernel_id, run_id, min(begin_ns) AS begin_ns FROM block_time GROUP BY kernel_id, run_id
), numbered AS (
  SELECT
    *, row_number() OVER (ORDER BY kernel_id, run_id, begin_ns, block) AS place, count(*) OVER () AS blocks
  FROM launch_block
)
SELECT
  b.kernel_id, p.process_id, b.multiprocessor, b.block, b.wave, n.short_kernel,
  coalesce(t.begin_ns, f.begin_ns) + b.begin_ns AS begin_ns, b.duration_ns, b.blocks
FROM numbered b
JOIN first f ON f.kernel_id = b.kernel_id AND f.run_id = b.run_id
JOIN launch l ON l.kernel_id = b.kernel_id
JOIN run r ON r.run_id = l.run_id
JOIN run p ON p.run_id = r.reference_run_id
LEFT JOIN kernel_name n ON n.function_id = l.function_id
LEFT JOIN timed t ON t.kernel_id = b.kernel_id AND t.place = 1
WHERE b.place <= 200000
ORDER BY begin_ns, b.kernel_id, b.block
