-- Copies between the host and one device that no kernel hides (exposed_copy): a tenth or more of the device's time in steps is
-- copies alone, in one direction, by `copy_time`. In a program that repeats nothing, all of its time counts.
--
-- Copies are slow where their memory on the host is pageable by `gpu_activity`, and, where that is unknown, where copies of
-- 1 MiB and more move less than 16 GB per second: the driver then copies by way of a buffer of its own, while pinned memory
-- moves at the rate of the link, 25 to 55 GB per second. Samples do not measure copies: they are 0. Time measures the cost.
--
-- Time saved: up to all of the time of copies alone. At least, half of it or of the time with kernels, whichever is less:
-- copies of the next step run while the kernels of this one do. Slow copies take 0.6 of their time or less once the memory
-- is pinned.
CREATE VIEW finding_transfer (
  finding,
  -- Its subject: a direction and a device.
  subject,
  sentence,
  fact,
  advice,
  -- The kernel: null, as it is a copy.
  kernel,
  -- The line that copies the most bytes. Null if it is not known.
  line,
  -- The op that copies the most bytes. Null outside ops.
  op,
  -- No tensor: null.
  tensor_id,
  -- 0.
  samples,
  -- 0.
  saving_samples,
  -- Time of copies alone in steps, nanoseconds.
  time_ns,
  -- Least time that a fix saves, nanoseconds, over all steps.
  saving_low_ns,
  saving_high_ns,
  -- Time that the fix takes each time it is made: null, as it takes none.
  fix_ns,
  -- Uses of its result from which it pays: null.
  pays_from,
  query
) AS
WITH period AS (
  SELECT run_id, device_id, count(program_step) AS steps, sum(end_ns - begin_ns) AS span_ns
  FROM phase_window
  WHERE program_phase IN ('steady', 'once')
  GROUP BY run_id, device_id
), kernel_time AS (
  SELECT run_id, device_id, sum(duration_ns) AS kernel_ns
  FROM segment_phase
  WHERE program_phase IN ('steady', 'once') AND kernel_count > 0
  GROUP BY run_id, device_id
), moved AS (
  SELECT
    c.run_id, c.device_id, c.copy_kind, count(*) AS copies, sum(c.size_bytes) AS moved_bytes, sum(c.duration_ns) AS copy_ns,
    sum(c.duration_ns - c.hidden_ns) AS exposed_ns,
    sum(CASE WHEN regexp_like(a.copy_memory, 'pageable', 'i') THEN c.duration_ns ELSE 0 END) AS pageable_ns,
    sum(CASE WHEN a.copy_memory IS NULL AND c.size_bytes >= 1048576 AND c.bytes_per_second < 16e9 THEN c.duration_ns ELSE 0 END) AS slow_ns
  FROM copy_time c
  JOIN gpu_activity a ON a.run_id = c.run_id AND a.activity_id = c.activity_id
  JOIN segment_phase s ON s.run_id = c.run_id AND s.device_id = c.device_id AND s.begin_ns = c.begin_ns
  WHERE c.copy_kind IN ('host_to_device', 'device_to_host') AND s.program_phase IN ('steady', 'once')
  GROUP BY c.run_id, c.device_id, c.copy_kind
), copied AS (
  -- Copies of recordings have their lines in the run that records accesses, those of imports have their own.
  SELECT kind AS copy_kind, line, op, size_bytes FROM copy_context
  UNION ALL
  SELECT a.copy_kind, o.source_line, o.op, CAST(a.size_bytes AS BIGINT)
  FROM gpu_activity a
  JOIN op_context o ON o.op_id = a.op_id
  WHERE a.kind = 'copy'
), copied_at AS (
  SELECT copy_kind, line, op, sum(size_bytes) AS copied_bytes
  FROM copied
  GROUP BY copy_kind, line, op
), largest AS (
  SELECT
    copy_kind, first_value(line ORDER BY copied_bytes DESC, line) AS line, first_value(op ORDER BY copied_bytes DESC, op) AS op
  FROM copied_at
  WHERE line IS NOT NULL
  GROUP BY copy_kind
), exposed AS (
  SELECT
    m.*, p.steps, l.line, l.op, replace(m.copy_kind, '_', ' ') AS direction,
    coalesce(k.kernel_ns, 0) AS kernel_ns,
    m.pageable_ns >= 0.5 * m.copy_ns AS is_pageable,
    m.pageable_ns + m.slow_ns >= 0.5 * m.copy_ns AS is_slow,
    CAST(CAST(round(100.0 * m.exposed_ns / p.span_ns) AS BIGINT) AS VARCHAR) || ' % of '
      || CASE WHEN p.steps > 1 THEN CAST(p.steps AS VARCHAR) || ' ' || h.noun || 's, together ' WHEN p.steps = 1 THEN 'a ' || h.noun || ' of ' ELSE '' END
      || CASE WHEN p.span_ns < 1e9 THEN CAST(CAST(p.span_ns / 1e6 AS DECIMAL(15, 2)) AS VARCHAR) || ' ms'
        ELSE CAST(CAST(p.span_ns / 1e9 AS DECIMAL(15, 2)) AS VARCHAR) || ' s' END AS part,
    CAST(CAST(m.moved_bytes / 1048576.0 AS DECIMAL(18, 1)) AS VARCHAR) || ' MiB at '
      || CAST(CAST(m.moved_bytes / 1.073741824 / greatest(m.copy_ns, 1) AS DECIMAL(12, 2)) AS VARCHAR) || ' GiB per second' AS amount
  FROM moved m
  JOIN period p ON p.run_id = m.run_id AND p.device_id = m.device_id
  LEFT JOIN kernel_time k ON k.run_id = m.run_id AND k.device_id = m.device_id
  LEFT JOIN largest l ON l.copy_kind = m.copy_kind
  CROSS JOIN (SELECT CASE max(found_by) WHEN 'period' THEN 'iteration' ELSE 'step' END AS noun FROM launch_phase) h
  WHERE m.exposed_ns >= 0.1 * p.span_ns
)
SELECT
  'exposed_copy',
  'copies ' || direction || ' of device ' || CAST(device_id AS VARCHAR),
  'Copies ' || direction || ' run alone on GPU ' || CAST(device_id AS VARCHAR) || ' in ' || part || ': ' || CAST(copies AS VARCHAR)
    || ' copies of ' || amount || CASE WHEN is_pageable THEN ', from or to pageable memory' WHEN is_slow THEN ', the rate of pageable memory' ELSE '' END
    || coalesce('. Most bytes at ' || line, '') || '.',
  'copies ' || direction || ' alone in ' || part || ': ' || amount
    || CASE WHEN is_pageable THEN ', pageable memory' WHEN is_slow THEN ', the rate of pageable memory' ELSE '' END
    || coalesce(', most of it at ' || line, ''),
  CASE
    WHEN copy_kind = 'host_to_device' AND is_slow
      THEN 'Pin the memory (pin_memory=True) and copy one batch ahead with non_blocking=True: faster, and while kernels run.'
    WHEN copy_kind = 'host_to_device'
      THEN 'Copy one batch ahead on a stream of its own (non_blocking=True), send smaller types, or keep the data on the GPU.'
    WHEN is_slow THEN 'Copy to pinned memory with non_blocking=True, less often, or reduce on the GPU first.'
    ELSE 'Copy less often or on a stream of its own (non_blocking=True), or reduce on the GPU first.' END,
  CAST(NULL AS VARCHAR) AS kernel, line, op, CAST(NULL AS BIGINT UNSIGNED) AS tensor_id,
  0.0 AS samples, 0.0 AS saving_samples, CAST(exposed_ns AS DOUBLE) AS time_ns,
  greatest(0.5 * least(exposed_ns, kernel_ns), CASE WHEN is_slow THEN 0.4 * exposed_ns ELSE 0.0 END) AS saving_low_ns,
  CAST(exposed_ns AS DOUBLE) AS saving_high_ns, CAST(NULL AS DOUBLE) AS fix_ns, CAST(NULL AS DOUBLE) AS pays_from,
  'SELECT c.*, a.copy_memory FROM copy_time c JOIN gpu_activity a ON a.run_id = c.run_id AND a.activity_id = c.activity_id '
    || 'WHERE c.copy_kind = ''' || copy_kind || ''' AND c.device_id = ' || CAST(device_id AS VARCHAR)
    || ' ORDER BY c.duration_ns - c.hidden_ns DESC'
FROM exposed
