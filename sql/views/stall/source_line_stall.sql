-- One stall reason at one source line of device code, over all launches of all kernels.
--
-- A line is that of the innermost inlined function, as the cubin's line table has it. Instructions without one are
-- together, so that all rows sum to the samples taken.
CREATE VIEW source_line_stall (
  -- File, as the line table names it; null without a line table.
  file,
  -- The line.
  source_line,
  -- The reason.
  stall_reason,
  -- Whether it is a memory stall.
  is_memory,
  -- Samples, as in the view `sample`.
  samples,
  -- Those among cycles in which the scheduler issued nothing; never added to `samples`.
  samples_not_issued,
  -- Part of all samples.
  share,
  -- Kernels that have some there.
  kernel_count
) AS
WITH summed AS (
  SELECT
    file, source_line, stall_reason, is_memory,
    sum(samples) AS samples, sum(samples_not_issued) AS samples_not_issued,
    count(DISTINCT kernel_function_id) AS kernel_count
  FROM instruction_stall
  GROUP BY file, source_line, stall_reason, is_memory
)
SELECT
  file, source_line, stall_reason, is_memory, samples, samples_not_issued,
  samples / nullif(sum(samples) OVER (), 0.0), kernel_count
FROM summed
