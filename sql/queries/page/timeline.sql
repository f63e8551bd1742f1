-- Timeline by stream
-- Measured time with work, by stream, in equal stretches of the run's span. kernel_ns, copy_ns: time with kernels, and
-- with copies and fills, in the stretch. Streams beyond the busiest are aggregated. Runs begin at 0 each, because ranks
-- have clocks of their own.
WITH work AS (
  SELECT
    run_id, device_id, stream_id, CASE WHEN kind = 'kernel' THEN 1 ELSE 0 END AS is_kernel, begin_ns, end_ns
  FROM gpu_activity
  WHERE kind IN ('kernel', 'copy', 'fill') AND end_ns > begin_ns
), span AS (
  SELECT run_id, min(begin_ns) AS first_ns, max(end_ns) - min(begin_ns) AS span_ns FROM work GROUP BY run_id
), width AS (
  SELECT greatest(1, CAST(ceil(max(span_ns) / 400.0) AS BIGINT)) AS stretch_ns, max(span_ns) AS span_ns FROM span
), stream AS (
  SELECT
    run_id, device_id, stream_id, sum(is_kernel) AS kernels, count(*) - sum(is_kernel) AS copies,
    least($top + 1, row_number() OVER (ORDER BY sum(end_ns - begin_ns) DESC, run_id, device_id, stream_id)) AS place
  FROM work
  GROUP BY run_id, device_id, stream_id
), placed AS (
  SELECT
    s.place, w.is_kernel, w.begin_ns - p.first_ns AS from_ns, w.end_ns - p.first_ns AS to_ns, x.stretch_ns,
    unnest(range((w.begin_ns - p.first_ns) / x.stretch_ns, (w.end_ns - p.first_ns - 1) / x.stretch_ns + 1)) AS stretch
  FROM work w
  JOIN stream s ON s.run_id = w.run_id AND s.device_id = w.device_id AND s.stream_id = w.stream_id
  JOIN span p ON p.run_id = w.run_id
  CROSS JOIN width x
), busy AS (
  SELECT
    place, stretch,
    sum(is_kernel * (least(to_ns, (stretch + 1) * stretch_ns) - greatest(from_ns, stretch * stretch_ns)))
      AS kernel_ns,
    sum((1 - is_kernel) * (least(to_ns, (stretch + 1) * stretch_ns) - greatest(from_ns, stretch * stretch_ns)))
      AS copy_ns
  FROM placed
  GROUP BY place, stretch
), named AS (
  SELECT
    place, count(*) AS streams, min(run_id) AS run_id, min(device_id) AS device_id, min(stream_id) AS stream_id,
    sum(kernels) AS kernels, sum(copies) AS copies
  FROM stream
  GROUP BY place
)
SELECT
  n.place, n.streams, CASE WHEN n.place <= $top THEN r.rank END AS rank,
  CASE WHEN n.place <= $top THEN n.device_id END AS device_id,
  CASE WHEN n.place <= $top THEN n.stream_id END AS stream_id,
  n.kernels, n.copies, b.stretch, b.kernel_ns, b.copy_ns, x.stretch_ns, x.span_ns
FROM named n
JOIN busy b ON b.place = n.place
CROSS JOIN width x
LEFT JOIN run r ON r.run_id = n.run_id
ORDER BY n.place, b.stretch
