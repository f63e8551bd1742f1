-- One process of the program, as its defining run recorded it: a rank of a distributed program, or the complete
-- program.
CREATE VIEW process (
  -- The defining run: that of `launch`.
  run_id,
  -- The rank. Null outside distributed programs.
  rank,
  -- Processes of the distributed program. Null if unknown.
  world_size,
  -- The host's name.
  host,
  -- The process id.
  process_id,
  -- The GPUs that its launches used, as CUDA's device ordinals.
  devices,
  launch_count,
  -- Launches that were not recorded, and launches without a row. With several runs, the largest number counts. Launches
  -- with the accesses of an earlier launch of their kind are none of them.
  lost_launch_count,
  -- Samples that are in the capture.
  sample_count,
  -- Samples of its launches that are missing from the capture.
  lost_sample_count,
  -- Warp requests that are in the capture, as rows or counts.
  request_count,
  -- Warp requests that are missing from the capture.
  lost_request_count
) AS
WITH launched AS (
  SELECT run_id, count(*) AS launches FROM program_launch GROUP BY run_id
), used AS (
  SELECT run_id, string_agg(CAST(device_id AS VARCHAR), ', ' ORDER BY device_id) AS devices
  FROM (SELECT DISTINCT run_id, device_id FROM launch)
  GROUP BY run_id
), lost_row AS (
  -- Samples outside the program's kernels, and of launches that were not selected, are no loss.
  SELECT
    run_id,
    sum(CASE WHEN kind = 'launch' THEN lost_count ELSE 0 END) AS launches,
    sum(CASE WHEN kind = 'sample' AND reason NOT IN ('taken outside the program''s kernels', 'launch was not selected')
      THEN lost_count ELSE 0 END) AS samples,
    sum(CASE WHEN kind = 'access' THEN lost_count ELSE 0 END) AS requests
  FROM loss
  GROUP BY run_id
), collected AS (
  SELECT run_id, sum(samples) AS samples FROM launch_stall GROUP BY run_id
), seen AS (
  SELECT
    s.run_id, sum(s.lost_sample_count) AS samples,
    sum(CASE WHEN s.recorded OR (a.source = 'model launch' AND s.request_count IS NOT NULL) THEN 0 ELSE 1 END) AS launches,
    sum(s.request_count + CASE WHEN a.source = 'counts' THEN coalesce(s.lost_request_count, 0) ELSE 0 END) AS requests,
    sum(CASE WHEN a.source = 'counts' THEN 0 ELSE s.lost_request_count END) AS lost_requests
  FROM launch_run s
  LEFT JOIN launch_access a ON a.kernel_id = s.kernel_id
  WHERE s.matched <> 'replayed'
  GROUP BY s.run_id
), run_sum AS (
  -- The same loss can be recorded by launch and by run.
  SELECT
    r.reference_run_id AS run_id,
    max(greatest(coalesce(s.launches, 0), coalesce(l.launches, 0))) AS lost_launches,
    sum(coalesce(d.samples, 0)) AS samples,
    sum(greatest(coalesce(s.samples, 0), coalesce(l.samples, 0))) AS lost_samples,
    sum(coalesce(s.requests, 0)) AS requests,
    sum(greatest(coalesce(s.lost_requests, 0), coalesce(l.requests, 0))) AS lost_requests
  FROM run r
  LEFT JOIN seen s ON s.run_id = r.run_id
  LEFT JOIN lost_row l ON l.run_id = r.run_id
  LEFT JOIN collected d ON d.run_id = r.run_id
  LEFT ANTI JOIN (SELECT DISTINCT run_id FROM replay) p ON p.run_id = r.run_id
  GROUP BY r.reference_run_id
)
SELECT
  r.run_id, r.rank, r.world_size, r.host, r.process_id, u.devices, coalesce(n.launches, 0),
  CAST(coalesce(m.lost_launches, 0) AS BIGINT), CAST(coalesce(m.samples, 0) AS BIGINT),
  CAST(coalesce(m.lost_samples, 0) AS BIGINT), CAST(coalesce(m.requests, 0) AS BIGINT),
  CAST(coalesce(m.lost_requests, 0) AS BIGINT)
FROM run r
LEFT JOIN launched n ON n.run_id = r.run_id
LEFT JOIN used u ON u.run_id = r.run_id
LEFT JOIN run_sum m ON m.run_id = r.run_id
LEFT ANTI JOIN (SELECT DISTINCT run_id FROM replay) p ON p.run_id = r.run_id
WHERE r.run_id = r.reference_run_id
