-- Collectives
-- One row per launch that is a collective, with its arguments.
SELECT
  kernel_id, call_name, in_element_count, out_element_count, dtype, group_name, group_description, group_ranks, group_size,
  sequence_number
FROM launch_collective
ORDER BY kernel_id
