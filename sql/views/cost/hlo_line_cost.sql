-- One line of a program that XLA compiled over all its launches, with every line of a fusion.
--
-- A launch's samples and time are split by the weights of its instruction's sources: those of one launch add up to the
-- launch's. So all rows add up to the samples, and `line_cost` gives the whole launch to the line of the fusion's root.
CREATE VIEW hlo_line_cost (
  -- The module. Null for launches of no compiled program.
  module,
  -- The line at which the operations were traced. Null without one.
  line,
  -- JAX's path of one of these operations. Null where XLA added them, and for trials of the compiler.
  op_name,
  -- Launches that compute any of them.
  launch_count,
  samples,
  -- Part of all samples. In a capture without samples, part of the time of all launches.
  share,
  time_ns
) AS
WITH source AS (
  SELECT l.kernel_id, m.name AS module, p.line, s.op_name, coalesce(s.weight, 1.0) AS weight
  FROM launch l
  LEFT JOIN hlo_launch h ON h.kernel_id = l.kernel_id
  LEFT JOIN hlo_module m ON m.hlo_module_id = h.hlo_module_id
  LEFT JOIN hlo_source s ON s.hlo_module_id = h.hlo_module_id AND s.instruction_id = h.instruction_id
  LEFT JOIN python_line p ON p.pystates_hash = coalesce(s.pystates_hash, l.pystates_hash)
), summed AS (
  SELECT
    s.module, s.line, s.op_name,
    count(DISTINCT s.kernel_id) AS launch_count,
    coalesce(sum(c.samples * s.weight), 0.0) AS samples,
    sum(c.time_ns * s.weight) AS time_ns
  FROM source s
  LEFT JOIN sample_cost c ON c.kernel_id = s.kernel_id
  GROUP BY s.module, s.line, s.op_name
)
SELECT
  module, line, op_name, launch_count, samples,
  CASE WHEN sum(samples) OVER () > 0.0 THEN samples / sum(samples) OVER () ELSE time_ns / nullif(sum(time_ns) OVER (), 0.0) END,
  time_ns
FROM summed
