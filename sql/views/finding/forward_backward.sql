-- One forward op at one line, and the cost of its gradient (DeepContext's forward/backward analysis).
--
-- Not counted: launches of code that autograd calls, as in `python_line`, and, where the op launched kernels at the line
-- at other times, gradients of those times at which it launched none under its name, as in compiled code.
--
-- Threshold: more than 2 is suspicious. The gradient of a matrix product consists of two products, so its ratio is near
-- 2.
CREATE VIEW forward_backward (
  -- Name of the forward op.
  op,
  -- Its line.
  line,
  -- Launches of the forward op.
  forward_launch_count,
  -- Launches of its gradient.
  backward_launch_count,
  -- Samples of the forward op.
  forward_samples,
  -- Samples of its gradient.
  backward_samples,
  -- Backward divided by forward: measured times, or samples where a time was not measured. Null if the forward op has
  -- neither.
  ratio,
  -- True if `ratio` is above 2.
  is_suspicious,
  -- GPU time of the forward op, nanoseconds. See `launch_time`.
  forward_ns,
  -- GPU time of its gradient, nanoseconds.
  backward_ns
) AS
WITH cost AS (
  SELECT kernel_id, sum(samples) AS samples, sum(time_ns) AS time_ns FROM sample_cost GROUP BY kernel_id
), forward AS (
  SELECT
    coalesce(g.name, o.name) AS op, p.line, o.forward_op_id IS NOT NULL AS is_backward, f.op_id IS NOT NULL AS has_forward,
    count(*) AS launches, sum(c.samples) AS samples, sum(c.time_ns) AS time_ns,
    CASE WHEN count(m.time_ns) = count(*) THEN sum(m.time_ns) END AS measured_ns
  FROM launch l
  JOIN op o ON o.op_id = l.op_id
  LEFT JOIN op g ON g.op_id = o.forward_op_id
  LEFT JOIN (SELECT DISTINCT op_id FROM launch) f ON f.op_id = o.forward_op_id
  LEFT JOIN python_line p ON p.pystates_hash = coalesce(g.pystates_hash, CASE WHEN g.op_id IS NULL THEN o.pystates_hash END)
  LEFT JOIN python_line b ON b.pystates_hash = o.pystates_hash
  JOIN cost c ON c.kernel_id = l.kernel_id
  LEFT JOIN measured_time m ON m.kernel_id = l.kernel_id
  WHERE (o.forward_op_id IS NOT NULL OR o.phase = 'forward') AND NOT coalesce(b.is_in_backward, false)
  GROUP BY coalesce(g.name, o.name), p.line, o.forward_op_id IS NOT NULL, f.op_id IS NOT NULL
), compared AS (
  SELECT * FROM (SELECT *, bool_or(NOT is_backward) OVER (PARTITION BY op, line) AS is_launched FROM forward)
  WHERE NOT is_backward OR has_forward OR NOT is_launched
), paired AS (
  SELECT
    op, line,
    sum(CASE WHEN is_backward THEN 0 ELSE launches END) AS forward_launches,
    sum(CASE WHEN is_backward THEN launches ELSE 0 END) AS backward_launches,
    sum(CASE WHEN is_backward THEN 0.0 ELSE samples END) AS forward_samples,
    sum(CASE WHEN is_backward THEN samples ELSE 0.0 END) AS backward_samples,
    sum(CASE WHEN is_backward THEN NULL ELSE time_ns END) AS forward_ns,
    sum(CASE WHEN is_backward THEN time_ns END) AS backward_ns,
    sum(CASE WHEN is_backward THEN measured_ns END) / nullif(sum(CASE WHEN is_backward THEN NULL ELSE measured_ns END), 0.0) AS time_ratio
  FROM compared
  GROUP BY op, line
)
SELECT
  op, line, forward_launches, backward_launches, forward_samples, backward_samples,
  ratio,
  coalesce(ratio > 2, false),
  forward_ns, backward_ns
FROM (SELECT *, coalesce(time_ratio, backward_samples / nullif(forward_samples, 0.0)) AS ratio FROM paired)
WHERE backward_launches > 0
