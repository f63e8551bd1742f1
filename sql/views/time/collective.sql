-- One collective as one rank ran it: a kernel that exchanges data between GPUs, with its size, rate and overlap.
--
-- Kernels of NCCL, RCCL, NVSHMEM, symmetric memory and inference servers count, by `collective_kind`. The table
-- `launch_collective` has their arguments. `exposed_ns + hidden_ns = duration_ns`.
--
-- bus_bytes_per_second follows doc/PERFORMANCE.md of nccl-tests: the size per time, times 2(n-1)/n for all_reduce, (n-1)/n
-- for all_gather, reduce_scatter and all_to_all, and 1 for others, of a group of n ranks. Time here is that of the rank's
-- own kernel, waits for other ranks too: `collective_match` has the rate from the begin of the last rank.
CREATE VIEW collective (
  -- The timeline run.
  run_id,
  -- The rank of its process. Null outside distributed programs.
  rank,
  kernel_id,
  -- The work, as in `gpu_activity`.
  activity_id,
  device_id,
  -- The stream.
  stream_id,
  -- all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send_receive, barrier, other.
  kind,
  -- The group of ranks (communicator). Null where only the kernel's name is known.
  group_name,
  -- The ranks of the group, as the source lists them.
  group_ranks,
  -- Ranks of the group.
  group_size,
  dtype,
  -- Bytes: the larger one of what the rank gives and gets, as nccl-tests count.
  size_bytes,
  -- The algorithm, such as RING, TREE, NVLS. Null where the kernel's name does not say.
  algorithm,
  -- The protocol: LL, LL128, SIMPLE. Null where the kernel's name does not say.
  protocol,
  begin_ns,
  end_ns,
  duration_ns,
  -- Time in which no other kernel than collectives ran on the device.
  exposed_ns,
  -- Time in which another kernel ran, too: computation hides the collective.
  hidden_ns,
  -- Bus bandwidth, bytes per second.
  bus_bytes_per_second,
  -- Factor from bytes per second to bus bandwidth. Null where the size of the group decides and is unknown.
  bus_factor,
  -- The collective: rows of several ranks with one number are one. Null if no other rank's is known.
  match_id
) AS
WITH so_far AS (
  -- Time with a collective and another kernel before each moment at which anything begins or ends.
  SELECT
    run_id, device_id, end_ns AS ns,
    sum(CASE WHEN collective_count > 0 AND kernel_count > collective_count THEN duration_ns ELSE 0 END)
      OVER (PARTITION BY run_id, device_id ORDER BY begin_ns) AS hidden_ns
  FROM gpu_segment
), named AS (
  SELECT
    function_id, collective_kind(name) AS kind,
    regexp_match(name, '_(RING|TREE|COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|NVLS_TREE|NVLS|PAT)_(LL128|LL|SIMPLE)') AS parts
  FROM function
), found AS (
  SELECT
    a.run_id, r.rank, a.kernel_id, a.activity_id, a.device_id, a.stream_id, coalesce(CAST(c.kind AS VARCHAR), n.kind) AS kind,
    l.function_id, c.group_name, c.group_ranks, c.group_size, c.dtype,
    CASE WHEN c.element_bytes IS NOT NULL AND coalesce(c.in_element_count, c.out_element_count) IS NOT NULL THEN least(
      CAST(greatest(c.in_element_count, c.out_element_count) AS DOUBLE) * CAST(c.element_bytes AS DOUBLE), 9007199254740992.0
    ) END AS size_bytes,
    n.parts, a.begin_ns, a.end_ns, c.match_id,
    CASE
      WHEN c.kind = 'all_reduce' THEN 2.0 * (c.group_size - 1) / c.group_size
      WHEN c.kind IN ('all_gather', 'reduce_scatter', 'all_to_all') THEN 1.0 * (c.group_size - 1) / c.group_size
      ELSE 1.0
    END AS factor,
    count(*) OVER (PARTITION BY a.run_id, l.function_id) AS own_count,
    row_number() OVER (PARTITION BY a.run_id, l.function_id ORDER BY a.begin_ns, a.activity_id) AS position
  FROM gpu_activity a
  JOIN run r ON r.run_id = a.run_id
  JOIN launch l ON l.kernel_id = a.kernel_id
  JOIN named n ON n.function_id = l.function_id
  LEFT JOIN launch_collective c ON c.kernel_id = a.kernel_id
  WHERE a.kind = 'kernel' AND a.end_ns IS NOT NULL AND (c.kernel_id IS NOT NULL OR n.kind IS NOT NULL)
), recorded AS (
  -- Recordings have no arguments: the n-th launches of a kernel are one where all ranks have as many.
  SELECT function_id
  FROM found
  WHERE kind <> 'send_receive' AND NOT EXISTS (SELECT 1 FROM launch_collective)
  GROUP BY function_id
  HAVING count(DISTINCT run_id) > 1 AND min(own_count) = max(own_count)
)
SELECT
  f.run_id, f.rank, f.kernel_id, f.activity_id, f.device_id, f.stream_id, f.kind, f.group_name, f.group_ranks, f.group_size,
  f.dtype, CAST(f.size_bytes AS BIGINT), f.parts[1], f.parts[2], f.begin_ns, f.end_ns, f.end_ns - f.begin_ns,
  f.end_ns - f.begin_ns - (coalesce(e.hidden_ns, 0) - coalesce(b.hidden_ns, 0)),
  coalesce(e.hidden_ns, 0) - coalesce(b.hidden_ns, 0),
  f.size_bytes * f.factor * 1e9 / nullif(CAST(f.end_ns - f.begin_ns AS DOUBLE), 0.0), f.factor,
  coalesce(
    f.match_id,
    CASE WHEN m.function_id IS NOT NULL
      THEN CAST(dense_rank() OVER (PARTITION BY m.function_id IS NULL ORDER BY f.function_id, f.position) AS BIGINT UNSIGNED) END
  )
FROM found f
LEFT JOIN recorded m ON m.function_id = f.function_id
LEFT JOIN so_far b ON b.run_id = f.run_id AND b.device_id = f.device_id AND b.ns = f.begin_ns
LEFT JOIN so_far e ON e.run_id = f.run_id AND e.device_id = f.device_id AND e.ns = f.end_ns
