-- One object that keeps memory busy: the accesses of one kernel, launched at one line by one op, to one tensor (grouped by
-- name with `*` for layers, or op, line, shape) or to one allocation outside tensors. One kind: busy_memory.
--
-- Thresholds: device memory, L2, its requests, L1 or the places of atomics are busy for 60 % of the launch's measured time,
-- at the rates of `memory_rate`. The object has a quarter of the traffic of `traffic_share`, and most of the launch's. Cost: samples of `traffic_charge`.
-- Saving: all of them, if the object's bytes need not move.
--
-- Time saved, if the object's bytes need not move: between three tenths of the smaller and the larger of two estimates, the time of
-- the charged samples, and what the busiest resource needs less (`traffic_relief`).
-- Up to twice that for device memory, since a fused kernel neither stores nor loads the object, and 2 microseconds per launch.
-- Parameters and buffers are loaded all the same: no more than once, with no launch less.
CREATE VIEW finding_traffic (
  finding,
  subject,
  sentence,
  fact,
  advice,
  -- The kernel.
  kernel,
  -- The innermost user line around the launches. In backward, the line whose gradient this is, with (grad).
  line,
  -- The innermost op around the launches.
  op,
  -- The tensor. In a group, the costliest.
  tensor_id,
  -- Samples of its cost.
  samples,
  saving_samples,
  -- GPU time that `samples` represent, nanoseconds. See `launch_time`.
  time_ns,
  saving_low_ns,
  saving_high_ns,
  fix_ns,
  pays_from,
  query
) AS
WITH touched AS (
  SELECT
    t.kernel_id, t.resource, t.target, coalesce(t.tensor_id, t.storage_id, t.allocation_id) AS object_id, t.tensor_id,
    max(t.busy_share) AS busy_share, sum(t.share) AS share,
    sum(CASE WHEN i.memory_kind IN ('write', 'copy out') THEN t.share ELSE 0.0 END) AS written_share,
    sum(CASE WHEN i.memory_kind IN ('atomic', 'reduction') THEN t.share ELSE 0.0 END) AS updated_share
  FROM traffic_share t
  LEFT JOIN instruction i ON i.function_id = t.function_id AND i.pc = t.pc
  WHERE t.busy_share >= 0.6
  GROUP BY t.kernel_id, t.resource, t.target, coalesce(t.tensor_id, t.storage_id, t.allocation_id), t.tensor_id
  HAVING sum(t.share) >= 0.25
), moved AS (
  -- A launch counts for one object: savings of one kind are added.
  SELECT *
  FROM (SELECT *, row_number() OVER (PARTITION BY kernel_id ORDER BY share DESC, busy_share DESC, target, object_id) AS place FROM touched)
  WHERE place = 1
), summed AS (
  SELECT
    l.function_id, l.op, line_label(l.line, l.forward_line) AS line, m.resource, m.target, o.family, o.family_type AS type,
    o.born_at, CASE WHEN count(DISTINCT o.name) > 1 THEN o.family ELSE max(o.label) END AS label,
    first_value(m.tensor_id ORDER BY c.samples DESC, m.object_id) AS tensor_id,
    coalesce(bool_and(o.label_source = 'name' AND NOT regexp_like(o.name, '^(gradient|optimizer state) of ')), false) AS is_parameter,
    sum(c.samples) AS samples, sum(c.time_ns) AS time_ns, count(DISTINCT m.kernel_id) AS launches,
    sum(r.time_ns * (1.0 - r.without_ns / r.busy_ns)) AS least_ns, sum(r.time_ns - r.without_ns) AS most_ns, avg(m.busy_share) AS busy_share, avg(m.share) AS share,
    avg(m.written_share / m.share) AS written_share, avg(m.updated_share / m.share) AS updated_share
  FROM moved m
  JOIN traffic_cost c ON c.kernel_id = m.kernel_id AND c.target = m.target AND c.object_id = m.object_id
  JOIN launch_context l ON l.kernel_id = m.kernel_id
  LEFT JOIN traffic_relief r ON r.kernel_id = m.kernel_id AND r.target = m.target AND r.object_id = m.object_id
  LEFT JOIN target_context o ON o.target = m.target AND o.object_id = m.object_id
  GROUP BY l.function_id, l.op, line_label(l.line, l.forward_line), m.resource, m.target, o.family, o.family_type,
    o.born_at
), worded AS (
  SELECT
    s.*, n.kernel, n.short_kernel,
    CASE s.resource
      WHEN 'atomics' THEN 'the places of its atomics'
      WHEN 'L2 requests' THEN 'the way to L2'
      ELSE s.resource
    END AS memory,
    CAST(CAST(round(100 * s.busy_share) AS BIGINT) AS VARCHAR) AS busy_percent,
    CAST(CAST(round(100 * s.share) AS BIGINT) AS VARCHAR) AS percent,
    CASE WHEN s.updated_share >= 0.5 THEN 'updates of ' WHEN s.written_share >= 0.5 THEN 'stores to '
      ELSE 'loads of ' END AS accesses
  FROM summed s
  LEFT JOIN kernel_name n ON n.function_id = s.function_id
)
SELECT
  'busy_memory', coalesce(label, 'memory') || ' in ' || short_kernel,
  short_kernel || coalesce(', launched at ' || line || ',', '') || ' keeps ' || memory || ' busy for ' || busy_percent
    || ' % of its time: ' || percent || ' % of its traffic are ' || accesses
    || coalesce('`' || label || '`', 'memory') || coalesce(' (' || type || ')', '') || '.',
  short_kernel || ': ' || memory || ' busy for ' || busy_percent || ' % of its time, ' || percent || ' % by ' || accesses
    || coalesce(label, 'memory'),
  CASE resource
    WHEN 'device memory' THEN 'Move fewer bytes: use a smaller type, or fuse the kernel with its neighbours to pass '
      || 'values in registers.'
    WHEN 'L2' THEN 'Load fewer bytes past L1: reuse values in registers or shared memory.'
    WHEN 'L2 requests' THEN 'Send fewer and fuller requests: let the lanes of a warp access whole sectors of few lines, or '
      || 'reorder the data by its use.'
    WHEN 'L1' THEN 'Touch fewer lines per request: let the lanes of a warp access consecutive addresses, or stage the data in '
      || 'shared memory.'
    ELSE 'Aggregate in registers and shared memory first, with one update per block and element, or spread the updates over '
      || 'several copies.'
  END,
  kernel, line, op, tensor_id, samples, samples AS saving_samples, time_ns,
  0.3 * least(time_ns, coalesce(least_ns, time_ns)) AS saving_low_ns, greatest(time_ns, coalesce(most_ns, 0.0)) * CASE WHEN resource = 'device memory' AND NOT is_parameter THEN 2.0 ELSE 1.0 END
    + CASE WHEN is_parameter THEN 0.0 ELSE 2e3 * launches END AS saving_high_ns,
  CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT l.* FROM launch_limit l JOIN launch n ON n.kernel_id = l.kernel_id WHERE n.function_id = '
    || CAST(function_id AS VARCHAR) || ' ORDER BY l.busy_share DESC'
FROM worded
