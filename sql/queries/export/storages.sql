-- Lifetimes of memory
-- One row per allocation of the framework, else of the driver: its addresses, its times and its Python stack.
SELECT
  m.object_id, r.process_id, m.device_id, m.address, m.size_bytes, m.origin, m.alloc_ns, m.free_ns, o.pystates_hash
FROM memory_object m
JOIN run r ON r.run_id = m.run_id
LEFT JOIN op o ON o.op_id = m.op_id
WHERE r.reference_run_id = r.run_id
ORDER BY m.device_id, m.alloc_ns, m.object_id
