-- One instruction of one kernel with its most frequent stall reason (DeepContext's fine-grained stall analysis).
--
-- Threshold: an instruction is hot with a tenth or more of its kernel's samples, in a kernel with a tenth or more of
-- all.
CREATE VIEW stall_hotspot (
  kernel_function_id,
  kernel,
  function_id,
  pc,
  -- Disassembly of the instruction. Null if the code could not be decoded.
  instruction,
  -- File of its source line. Null without a line table.
  file,
  -- Its source line.
  source_line,
  -- The most frequent stall reason, except selected, which is not a stall.
  top_reason,
  -- Samples with this reason.
  top_samples,
  -- Samples of all stalls there.
  samples,
  -- Part of the kernel's samples.
  kernel_share,
  -- The kernel's part of all samples.
  share,
  -- Position among the kernel's instructions, from 1 for the one with most samples.
  position,
  -- True if `kernel_share` and `share` are 0.1 or more.
  is_hotspot
) AS
WITH stalled AS (
  SELECT
    kernel_function_id, kernel, function_id, pc, instruction, file, source_line, stall_reason, samples,
    sum(samples) OVER (PARTITION BY kernel_function_id) AS kernel_samples, sum(samples) OVER () AS all_samples
  FROM instruction_stall
), summed AS (
  SELECT
    kernel_function_id, kernel, function_id, pc, instruction, file, source_line, kernel_samples, all_samples,
    first_value(stall_reason ORDER BY samples DESC, stall_reason) AS top_reason,
    max(samples) AS top_samples, sum(samples) AS samples
  FROM stalled
  WHERE stall_reason <> 'selected'
  GROUP BY kernel_function_id, kernel, function_id, pc, instruction, file, source_line, kernel_samples, all_samples
)
SELECT
  kernel_function_id, kernel, function_id, pc, instruction, file, source_line, top_reason, top_samples, samples,
  samples / nullif(kernel_samples, 0.0),
  kernel_samples / nullif(all_samples, 0.0),
  row_number() OVER (PARTITION BY kernel_function_id ORDER BY samples DESC, function_id, pc),
  coalesce(samples >= 0.1 * kernel_samples AND kernel_samples >= 0.1 * all_samples, false)
FROM summed
