-- Blocks over time
-- Blocks of launches whose blocks were timed (`--blocks-timeline`), by multiprocessor: of each kernel the launch with the
-- most time of block slots without a block, up to 30,000 blocks in all. A block's colour is its wave: a multiprocessor begins the next wave once
-- the first block of its slots has ended. `launch_balance` has each launch, `launch_block` each block.
WITH emptied AS (
  SELECT
    b.*, l.function_id, (1.0 - b.block_share) * b.span_ns AS empty_ns,
    row_number() OVER (PARTITION BY l.function_id ORDER BY (1.0 - b.block_share) * b.span_ns DESC, b.kernel_id, b.run_id) AS own_place
  FROM launch_balance b
  JOIN launch l ON l.kernel_id = b.kernel_id
  WHERE b.timed_blocks <= 30000
), numbered AS (
  SELECT
    *, row_number() OVER (ORDER BY empty_ns DESC, kernel_id) AS place,
    sum(timed_blocks) OVER (ORDER BY empty_ns DESC, kernel_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far
  FROM emptied
  WHERE own_place = 1
)
SELECT
  n.place, n.kernel_id, k.short_kernel AS kernel, line_label(c.line, c.forward_line) AS line, n.block_count, n.timed_blocks,
  n.span_ns, n.waves, n.imbalance, n.block_share, n.tail_share, x.multiprocessor, x.block, x.begin_ns, x.duration_ns, x.wave
FROM numbered n
JOIN launch_block x ON x.kernel_id = n.kernel_id AND x.run_id = n.run_id
JOIN launch_context c ON c.kernel_id = n.kernel_id
LEFT JOIN kernel_name k ON k.function_id = n.function_id
WHERE n.place <= $top AND n.so_far <= 30000
ORDER BY n.place, x.multiprocessor, x.begin_ns, x.block
