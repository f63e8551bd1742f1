-- Ops and regions
-- One row per call of an op and per region of the user, with its thread and its times.
SELECT
  o.op_id, r.run_id, r.process_id, o.thread_id, CAST(o.kind AS VARCHAR) AS kind, o.name, o.parent_op_id, o.begin_ns, o.end_ns,
  CAST(o.phase AS VARCHAR) AS phase, o.step, o.sequence_number, o.autograd_node, o.forward_op_id, o.module_path, s.line
FROM op o
JOIN run r ON r.run_id = o.run_id
LEFT JOIN python_stack s ON s.pystates_hash = o.pystates_hash
WHERE r.reference_run_id = r.run_id
ORDER BY o.begin_ns, o.op_id
