-- One stretch of a device's time, as in `gpu_segment`, and the reason for it: busy with kernels, or short of something.
--
-- state: `kernels` with a kernel that is no collective, `collectives` with collectives only, `input` with copies from the
-- host only, or idle before such a copy or before the first call after a data loader (an op or region with `dataloader` in
-- its name), `launch` if idle because the next call came late, else `other`. Stretches of one device follow each other
-- without gaps.
CREATE VIEW device_state (
  run_id,
  device_id,
  begin_ns,
  end_ns,
  duration_ns,
  -- kernels, collectives, input, launch, other.
  state
) AS
WITH call AS (
  SELECT run_id, begin_ns, kernel_id, NULL AS activity_id, false AS is_loader FROM launch_run WHERE end_ns IS NOT NULL
  UNION ALL
  SELECT run_id, call_begin_ns, NULL, activity_id, false FROM gpu_activity WHERE call_begin_ns IS NOT NULL
  UNION ALL
  SELECT run_id, end_ns, NULL, NULL, true
  FROM op
  WHERE end_ns IS NOT NULL AND regexp_like(name, 'data_?loader', 'i')
), ordered AS (
  -- An end of a loader at the begin of a call is before it.
  SELECT *, lag(is_loader) OVER (PARTITION BY run_id ORDER BY begin_ns, NOT is_loader) AS is_after FROM call
), loaded AS (
  SELECT run_id, kernel_id, activity_id FROM ordered WHERE is_after AND NOT is_loader
), gap AS (
  SELECT
    g.run_id, g.device_id, g.begin_ns, g.cause,
    a.copy_kind = 'host_to_device' OR k.kernel_id IS NOT NULL OR c.activity_id IS NOT NULL AS is_input
  FROM gpu_gap g
  LEFT JOIN gpu_activity a ON a.run_id = g.run_id AND a.activity_id = g.next_activity_id
  LEFT JOIN loaded k ON k.run_id = g.run_id AND k.kernel_id = g.next_kernel_id
  LEFT JOIN loaded c ON c.run_id = g.run_id AND c.activity_id = g.next_activity_id
)
SELECT
  s.run_id, s.device_id, s.begin_ns, s.end_ns, s.duration_ns,
  CASE
    WHEN s.kernel_count > s.collective_count THEN 'kernels'
    WHEN s.collective_count > 0 THEN 'collectives'
    -- Directions of several copies at once are not known.
    WHEN s.copy_count > 0 AND coalesce(a.copy_kind, 'host_to_device') = 'host_to_device' AND coalesce(a.kind, 'copy') = 'copy'
      THEN 'input'
    WHEN s.copy_count > 0 THEN 'other'
    WHEN g.is_input THEN 'input'
    WHEN g.cause IN ('late launch', 'late copy') THEN 'launch'
    ELSE 'other'
  END
FROM gpu_segment s
LEFT JOIN gpu_activity a ON a.run_id = s.run_id AND a.activity_id = s.activity_id
LEFT JOIN gap g
  ON g.run_id = s.run_id AND g.device_id = s.device_id AND g.begin_ns = s.begin_ns AND s.kernel_count + s.copy_count = 0
