-- Coverage of replays: one fact per row. Captures without bundles have no rows.
CREATE VIEW replay_coverage (
  -- Position in the reading order, from 1.
  ordinal,
  item,
  count,
  -- Total of the item. Null if it has none.
  total,
  -- True if nothing that should be there is missing. Null if a part is expected, or if there is no total.
  is_whole,
  -- Explanation, if the item needs one.
  detail
) AS
WITH summed AS (
  SELECT
    count(*) AS selected,
    sum(CASE WHEN refusal IS NULL THEN 1 ELSE 0 END) AS bundled,
    sum(CASE WHEN repeat_count > 0 THEN 1 ELSE 0 END) AS replayed,
    sum(CASE WHEN outcome = 'verified' THEN 1 ELSE 0 END) AS verified,
    sum(CASE WHEN outcome = 'unstable' THEN 1 ELSE 0 END) AS unstable,
    sum(page_count) AS pages,
    sum(bytes) AS bytes
  FROM replay_quality
  LIMIT 1
), stored AS (
  SELECT sum(row_count) AS contents, sum(size_bytes) AS bytes FROM capture_table WHERE name = 'bundle_content' LIMIT 1
), after AS (
  -- Memory written by atomics is also stored as it was after the launch.
  SELECT count(content_after_id) * 4096 AS bytes FROM bundle_page LIMIT 1
), launched AS (
  SELECT count(*) AS launches FROM launch LIMIT 1
), fact AS (
  SELECT
    k.ordinal, k.item,
    CASE k.ordinal WHEN 1 THEN s.selected WHEN 2 THEN s.bundled WHEN 4 THEN s.replayed WHEN 5 THEN s.verified
      WHEN 6 THEN s.unstable WHEN 7 THEN s.pages WHEN 8 THEN s.bytes + a.bytes WHEN 9 THEN c.contents * 4096
      ELSE c.bytes END AS count,
    CASE k.ordinal WHEN 1 THEN l.launches WHEN 2 THEN s.selected WHEN 4 THEN s.bundled WHEN 5 THEN s.replayed
      WHEN 6 THEN s.replayed WHEN 9 THEN s.bytes + a.bytes END AS total,
    CASE k.ordinal WHEN 2 THEN s.bundled = s.selected WHEN 5 THEN s.verified + s.unstable = s.replayed END AS is_whole
  FROM summed s
  CROSS JOIN stored c
  CROSS JOIN after a
  CROSS JOIN launched l
  CROSS JOIN (VALUES
    (1, 'launches selected for replay'), (2, 'launches bundled'), (4, 'bundled launches replayed'),
    (5, 'replayed launches that left the same memory'),
    (6, 'replayed launches with unstable memory'), (7, 'pages of bundles'),
    (8, 'bytes of bundles'), (9, 'bytes of bundles, each content once'), (10, 'bytes of bundles, compressed')
  ) AS k(ordinal, item)
  WHERE s.selected > 0 AND (k.ordinal NOT IN (5, 6) OR s.replayed > 0) AND (k.ordinal <> 6 OR s.unstable > 0)
)
SELECT ordinal, item, count, total, is_whole, CAST(NULL AS VARCHAR) FROM fact
UNION ALL
SELECT 3, 'launches not bundled', count(*), NULL, false, refusal
FROM bundle
WHERE refusal IS NOT NULL
GROUP BY refusal
