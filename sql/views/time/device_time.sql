-- One device in one timeline run: the time that it worked, and the time that it did not.
--
-- Times are unions: work that runs side by side counts once. `busy_ns + idle_ns` is the span.
CREATE VIEW device_time (
  run_id,
  device_id,
  -- Begin of its first work, nanoseconds since the Unix epoch.
  begin_ns,
  -- Time from there to the end of its last work, nanoseconds.
  span_ns,
  -- Time with any work.
  busy_ns,
  -- Time without work.
  idle_ns,
  -- Part of the span with work.
  busy_share,
  -- Time with a kernel.
  kernel_ns,
  -- Time with two kernels or more.
  concurrent_kernel_ns,
  -- Time with a copy or fill.
  copy_ns,
  -- Time with a copy or fill, and with a kernel: copies that the kernels hide.
  hidden_copy_ns,
  -- Time with a collective.
  collective_ns,
  -- Time with a collective, and with another kernel: collectives that computation hides.
  hidden_collective_ns
) AS
SELECT
  run_id, device_id, min(begin_ns), sum(duration_ns),
  sum(CASE WHEN kernel_count + copy_count > 0 THEN duration_ns ELSE 0 END),
  sum(CASE WHEN kernel_count + copy_count > 0 THEN 0 ELSE duration_ns END),
  sum(CASE WHEN kernel_count + copy_count > 0 THEN duration_ns ELSE 0 END)
    / nullif(CAST(sum(duration_ns) AS DOUBLE), 0.0),
  sum(CASE WHEN kernel_count > 0 THEN duration_ns ELSE 0 END),
  sum(CASE WHEN kernel_count > 1 THEN duration_ns ELSE 0 END),
  sum(CASE WHEN copy_count > 0 THEN duration_ns ELSE 0 END),
  sum(CASE WHEN copy_count > 0 AND kernel_count > 0 THEN duration_ns ELSE 0 END),
  sum(CASE WHEN collective_count > 0 THEN duration_ns ELSE 0 END),
  sum(CASE WHEN collective_count > 0 AND kernel_count > collective_count THEN duration_ns ELSE 0 END)
FROM gpu_segment
GROUP BY run_id, device_id
