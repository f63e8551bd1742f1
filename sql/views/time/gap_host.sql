-- One gap of 100 us or more before late work, as in `gpu_gap`, that an op, range or function of the host fills: half of the
-- gap or more, with nine tenths of its own time.
--
-- A data loader comes before others, else the longest. Spans that enclose whole steps are none of these. Imported traces
-- have functions in which nothing is launched as ranges.
CREATE VIEW gap_host (
  run_id,
  device_id,
  -- Begin of the gap.
  begin_ns,
  -- Name of the op or range. Of a function, its line.
  name,
  -- True for a data loader: `dataloader` is in the name.
  is_loader
) AS
WITH late AS (
  SELECT
    run_id, device_id, begin_ns, begin_ns + duration_ns AS end_ns, duration_ns,
    -- Damaged times lie centuries apart. Twice the length is still a number.
    CAST(least(floor(log2(CAST(duration_ns AS DOUBLE))), 60.0) AS BIGINT) AS level
  FROM gpu_gap
  WHERE cause IN ('late launch', 'late copy') AND duration_ns >= 100000
), span AS (
  SELECT
    run_id, name, begin_ns, end_ns, CAST(least(floor(log2(CAST(end_ns - begin_ns AS DOUBLE))), 60.0) AS BIGINT) AS level
  FROM host_span
  WHERE kind <> 'wait' AND NOT is_derived AND end_ns - begin_ns >= 50000
), placed AS (
  SELECT *, begin_ns / CAST(power(2.0, level + 1) AS BIGINT) AS place FROM span
), reached AS (
  -- Such spans have half to less than twice the length of the gap, and begin near it: equal places find them.
  SELECT l.*, l.level + v.more AS span_level FROM late l CROSS JOIN (VALUES (-1), (0), (1)) AS v(more)
), sought AS (
  SELECT r.*, r.begin_ns / CAST(power(2.0, r.span_level + 1) AS BIGINT) + v.more AS place
  FROM reached r
  CROSS JOIN (VALUES (-1), (0), (1), (2)) AS v(more)
), filled AS (
  SELECT
    g.run_id, g.device_id, g.begin_ns, regexp_replace(s.name, '[ #._-]*[0-9]+$', '') AS name, s.end_ns - s.begin_ns AS length_ns,
    g.duration_ns, least(s.end_ns, g.end_ns) - greatest(s.begin_ns, g.begin_ns) AS shared_ns,
    regexp_like(s.name, 'data_?loader', 'i') AS is_loader
  FROM sought g
  JOIN placed s ON s.run_id = g.run_id AND s.level = g.span_level AND s.place = g.place
)
SELECT
  run_id, device_id, begin_ns, first_value(name ORDER BY is_loader DESC, length_ns DESC, name), bool_or(is_loader)
FROM filled
WHERE shared_ns >= 0.5 * duration_ns AND shared_ns >= 0.9 * length_ns
GROUP BY run_id, device_id, begin_ns
