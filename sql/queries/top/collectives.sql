-- Collectives by exposed time
-- The collectives of each kind, group and size, over all ranks. exposed: time in which no computation hides them.
-- wait: time of ranks that came before the last one. bus gb s: median bus bandwidth in GB/s, of several ranks from the
-- begin of the last one. ranks: those of the group, and its name. last: the rank that most of the delay is due to, and
-- the cause. All rows add up to all collectives.
WITH own AS (
  SELECT
    c.kind, c.group_name, c.group_size, c.dtype, c.size_bytes, count(*) AS launches, count(DISTINCT c.match_id) AS matched,
    sum(c.duration_ns) AS time_ns, sum(c.exposed_ns) AS exposed_ns, sum(s.wait_ns) AS wait_ns,
    median(coalesce(m.bus_bytes_per_second, c.bus_bytes_per_second)) AS bus
  FROM collective c
  LEFT JOIN collective_skew s ON s.match_id = c.match_id AND s.kernel_id = c.kernel_id
  LEFT JOIN collective_match m ON m.match_id = c.match_id
  GROUP BY c.kind, c.group_name, c.group_size, c.dtype, c.size_bytes
), delayed AS (
  SELECT
    kind, group_name, size_bytes, last_rank, cause, sum(delay_ns) AS delay_ns,
    row_number() OVER (
      PARTITION BY kind, group_name, size_bytes ORDER BY sum(delay_ns) DESC, last_rank, cause
    ) AS place
  FROM collective_match
  GROUP BY kind, group_name, size_bytes, last_rank, cause
), placed AS (
  SELECT
    o.*, d.last_rank, d.cause,
    least($top + 1, row_number() OVER (
      ORDER BY o.$sort DESC NULLS LAST, o.time_ns DESC, o.kind, o.group_name, o.size_bytes, o.dtype
    )) AS place
  FROM own o
  LEFT JOIN delayed d
    ON d.place = 1 AND d.kind = o.kind AND (d.group_name IS NOT DISTINCT FROM o.group_name)
    AND (d.size_bytes IS NOT DISTINCT FROM o.size_bytes)
)
SELECT
  sum(exposed_ns) AS exposed_ns,
  sum(time_ns) AS time_ns,
  sum(wait_ns) AS wait_ns,
  sum(launches) AS launches,
  CASE WHEN place <= $top THEN round(max(bus) / 1e9, 1) END AS bus_gb_s,
  CASE WHEN place <= $top THEN max(size_bytes) END AS size_bytes,
  CASE WHEN place <= $top THEN CAST(max(group_size) AS VARCHAR) || coalesce(' (' || max(group_name) || ')', '') END AS ranks,
  CASE WHEN place <= $top THEN max(last_rank) END AS last,
  CASE WHEN place <= $top THEN max(cause) END AS cause,
  CASE WHEN place <= $top THEN max(kind) || coalesce(' ' || max(dtype), '')
    ELSE 'other (' || CAST(count(*) AS VARCHAR) || ')' END AS collective
FROM placed
GROUP BY place
ORDER BY place
