-- Accesses by instruction
-- Accesses of each instruction of a launch to each piece of memory, if the capture has all that instruments can observe. is_whole:
-- the launch made no others.
SELECT
  p.kernel_id, p.function_id, p.pc, i.block, p.kind, p.space, p.storage_id, p.allocation_id, o.is_whole,
  sum(p.lane_count) AS lanes
FROM pc_tensor p
JOIN launch_access a ON a.kernel_id = p.kernel_id
JOIN launch_observed o ON o.kernel_id = p.kernel_id
LEFT JOIN instruction i ON i.function_id = p.function_id AND i.pc = p.pc
WHERE p.evidence = 'observed' AND (a.source = 'counts' OR a.source = 'rows' AND a.request_count = a.held_request_count)
GROUP BY p.kernel_id, p.function_id, p.pc, i.block, p.kind, p.space, p.storage_id, p.allocation_id, o.is_whole
ORDER BY p.kernel_id, p.function_id, p.pc, p.kind, p.space
