-- One stall reason at one source line of device code, over all launches of all kernels.
--
-- A line is that of the innermost inlined function, from the cubin's line table. Instructions without a line are one
-- row: all rows add up to the samples.
CREATE VIEW source_line_stall (
  -- File, from the line table. Null without a line table.
  file,
  -- The line.
  source_line,
  -- The reason.
  stall_reason,
  -- True for a memory stall.
  is_memory,
  -- Samples, as in the view `sample`.
  samples,
  -- Samples among these in cycles in which the scheduler issued nothing. Never added to `samples`.
  samples_not_issued,
  -- Part of all samples.
  share,
  -- Kernels with samples there.
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
