-- Blocks over time
-- Kernels whose blocks were timed (`--blocks-timeline`), by the time that block slots were empty. blocks: of a
-- launch. start, gap, tail, empty: parts of the slots' time without a block, with busy they add up to 100. longest: the
-- longest block divided by the mean. `launch_balance` has each launch, `launch_block` each block.
WITH summed AS (
  SELECT
    n.short_kernel, b.block_count, b.slots, count(*) AS launches, sum(b.span_ns) AS span_ns, avg(b.waves) AS waves,
    sum(b.mean_block_ns * b.timed_blocks) / sum(b.timed_blocks) AS mean_block_ns, max(b.imbalance) AS imbalance,
    sum(b.block_share * b.span_ns) AS block_ns, sum(b.start_share * b.span_ns) AS start_ns,
    sum(b.gap_share * b.span_ns) AS gap_ns, sum(b.tail_share * b.span_ns) AS tail_ns,
    sum(b.empty_share * b.span_ns) AS empty_ns
  FROM launch_balance b
  JOIN launch l ON l.kernel_id = b.kernel_id
  LEFT JOIN kernel_name n ON n.function_id = l.function_id
  GROUP BY n.short_kernel, b.block_count, b.slots
), numbered AS (
  SELECT *, least($top + 1, row_number() OVER (ORDER BY span_ns - block_ns DESC, short_kernel, block_count, slots)) AS place
  FROM summed
)
SELECT
  CASE WHEN place <= $top THEN max(short_kernel) ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS kernel,
  sum(launches) AS launches,
  CASE WHEN place <= $top THEN max(block_count) END AS blocks,
  CASE WHEN place <= $top THEN max(waves) END AS waves,
  CASE WHEN place <= $top THEN max(mean_block_ns) / 1e3 END AS mean_block_us,
  CASE WHEN place <= $top THEN max(imbalance) END AS longest,
  100 * sum(block_ns) / sum(span_ns) AS busy_percent,
  100 * sum(start_ns) / sum(span_ns) AS start_percent,
  100 * sum(gap_ns) / sum(span_ns) AS gap_percent,
  100 * sum(tail_ns) / sum(span_ns) AS tail_percent,
  100 * sum(empty_ns) / sum(span_ns) AS empty_percent
FROM numbered
GROUP BY place
ORDER BY place
