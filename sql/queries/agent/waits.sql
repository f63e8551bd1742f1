-- Waits for agents
-- One row per stall reason, waiting instruction, producer and object of a kernel at a line, with its samples. Rows of
-- all stalls add up to the samples, and `share` is a part of all samples.
WITH charged AS (
  SELECT
    l.function_id AS kernel_function_id, line_label(l.line, l.forward_line) AS line, c.stall_reason,
    c.is_memory, c.function_id, c.pc, c.producer_function_id, c.producer_pc, c.confidence, c.charge, c.target,
    c.tensor_id, c.storage_id, c.allocation_id,
    sum(c.samples) AS samples
  FROM stall_charge c
  JOIN launch_context l ON l.kernel_id = c.kernel_id
  GROUP BY l.function_id, line_label(l.line, l.forward_line), c.stall_reason, c.is_memory, c.function_id,
    c.pc, c.producer_function_id, c.producer_pc, c.confidence, c.charge, c.target, c.tensor_id, c.storage_id,
    c.allocation_id
), named AS (
  SELECT c.*, coalesce(k.short_kernel, k.kernel) AS short_kernel, k.kernel, o.label AS object, o.type
  FROM charged c
  LEFT JOIN kernel_name k ON k.function_id = c.kernel_function_id
  LEFT JOIN target_context o
    ON o.object_id = coalesce(c.tensor_id, c.storage_id, c.allocation_id)
    AND o.target = CASE
      WHEN c.tensor_id IS NOT NULL THEN 'tensor'
      WHEN c.storage_id IS NOT NULL THEN 'storage'
      ELSE 'outside any tensor'
    END
)
SELECT
  n.stall_reason || ' in ' || coalesce(n.short_kernel, '(unknown kernel)')
    || CASE
      WHEN n.charge = 'self' THEN ': not memory'
      WHEN n.producer_pc IS NULL THEN ': no producer found'
      ELSE ': waits for ' || coalesce(p.mnemonic, 'an instruction') || ' at +0x' || to_hex(CAST(n.producer_pc AS BIGINT))
    END
    || CASE
      WHEN n.object IS NOT NULL THEN ', which accesses `' || n.object || '`' || coalesce(' (' || n.type || ')', '')
      WHEN n.charge <> 'self' AND n.target IS NOT NULL THEN ', target: ' || n.target
      ELSE ''
    END AS sentence,
  n.samples,
  n.samples / nullif(sum(n.samples) OVER (), 0.0) AS share,
  n.kernel, n.short_kernel, n.kernel_function_id, n.line, n.stall_reason, n.is_memory, n.function_id, n.pc,
  i.text AS instruction, n.producer_function_id, n.producer_pc, n.confidence, n.object, n.tensor_id, n.charge, n.target
FROM named n
LEFT JOIN instruction i ON i.function_id = n.function_id AND i.pc = n.pc
LEFT JOIN instruction p ON p.function_id = n.producer_function_id AND p.pc = n.producer_pc
