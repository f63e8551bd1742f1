-- One object, as in `memory_object`, that held memory longer than needed, or was written but not read.
--
-- | pattern | meaning |
-- |---|---|
-- | early allocation | launches ran between its allocation and its first use |
-- | late free | launches ran between its last use and its free |
-- | idle | launches ran between two of its uses: the longest such period |
-- | unused | nothing uses it |
-- | only copied | memcpys and memsets use it, no launch does |
-- | never freed | it was not freed before the program ended |
-- | dead write | the written data was overwritten unread, as in `dead_write` |
-- | reusable allocation | another object of its size or more, still allocated, had its last use before its first use |
-- | allocated before recording | its allocation was not recorded, so it may have been early |
-- | recording ended | it was not freed before recording ended, and the program continued or was killed: it may leak |
-- | use unknown | no use is known in such a period, but launches ran that may have used it: the longest period |
--
-- The last three are not faults: they count unknown cases. A launch may have used an object if it was not observed
-- completely (`launch_observed`), unless its op's tensors are known, and the object is one of those of any op.
CREATE VIEW life_pattern (
  -- The pattern.
  pattern,
  -- The storage. Null for a driver allocation.
  storage_id,
  -- The driver allocation. Null for a storage.
  allocation_id,
  -- Its name.
  object,
  -- Element type and shape of its first tensor.
  type,
  device_id,
  -- Bytes, rounded by the allocator. For a dead write, the written bytes.
  size_bytes,
  -- The op that allocated it.
  op,
  -- The line of that op.
  born_at,
  -- First launch of the pattern.
  ordinal,
  -- Duration in launches.
  launches,
  -- Bytes times launches, to rank by.
  byte_launches,
  -- True if its device's memory in use was at its peak in these launches.
  is_at_peak,
  -- Evidence for the uses: accesses, op (arguments of ops, which may be unused), both. Null without uses.
  evidence,
  -- The storage or allocation whose memory it could have used. Null for other patterns.
  other_object_id,
  -- For a dead write, true if addresses prove it, as in `dead_write`. Null for other patterns.
  is_certain
) AS
WITH life AS (
  SELECT
    l.*, r.exit_code IS NOT NULL AS is_whole,
    -- Signed, for differences.
    CAST(l.alloc_ordinal AS BIGINT) AS allocated, CAST(l.first_use_ordinal AS BIGINT) AS first_use,
    CAST(l.last_use_ordinal AS BIGINT) AS last_use, CAST(coalesce(l.free_ordinal, l.end_ordinal) AS BIGINT) AS ended,
    a.storage_id IS NOT NULL AS is_argument
  FROM object_life l
  LEFT JOIN (SELECT DISTINCT t.storage_id FROM op_tensor d JOIN tensor t ON t.tensor_id = d.tensor_id) a
    ON a.storage_id = l.storage_id
  LEFT JOIN run r ON r.run_id = l.run_id
), known AS (
  -- Without a single use, uses were not recorded, and nothing is known to be unused.
  SELECT p.pattern, u.uses > 0 AS is_observed
  FROM (VALUES ('early allocation'), ('idle'), ('late free'), ('never freed'), ('recording ended'), ('unused'),
    ('only copied'), ('allocated before recording')) AS p (pattern)
  CROSS JOIN (SELECT count(*) AS uses FROM object_use LIMIT 1) u
), named AS (
  SELECT
    l.*, p.pattern,
    CASE p.pattern
      WHEN 'early allocation' THEN allocated
      WHEN 'idle' THEN CAST(idle_ordinal AS BIGINT)
      WHEN 'late free' THEN last_use
      WHEN 'never freed' THEN coalesce(last_use, allocated)
      WHEN 'recording ended' THEN coalesce(last_use, allocated)
      ELSE allocated
    END AS ordinal,
    CASE p.pattern
      WHEN 'early allocation' THEN first_use - allocated
      WHEN 'idle' THEN CAST(idle_launches AS BIGINT)
      WHEN 'late free' THEN ended - last_use
      WHEN 'never freed' THEN ended - coalesce(last_use, allocated)
      WHEN 'recording ended' THEN ended - coalesce(last_use, allocated)
      ELSE ended - allocated
    END AS launches,
    CASE p.pattern
      WHEN 'early allocation' THEN origin <> 'tensor' AND first_use > allocated
      WHEN 'idle' THEN idle_launches > 0
      WHEN 'late free' THEN free_ordinal IS NOT NULL AND ended > last_use
      WHEN 'never freed' THEN free_ordinal IS NULL AND is_whole
      WHEN 'recording ended' THEN free_ordinal IS NULL AND NOT is_whole
      WHEN 'unused' THEN use_count = 0 AND copy_count = 0 AND is_observed
      WHEN 'only copied' THEN use_count = 0 AND copy_count > 0 AND is_observed
      WHEN 'allocated before recording' THEN origin = 'tensor'
    END AS is_so
  FROM life l
  CROSS JOIN known p
), judged AS (
  SELECT
    n.*,
    n.pattern IN ('early allocation', 'idle', 'late free', 'unused', 'only copied')
      AND NOT coalesce(CASE WHEN n.is_argument THEN b.blind_count = a.blind_count
        ELSE b.launch_count = a.launch_count END AND a.is_listed, false) AS is_unknown
  FROM named n
  LEFT JOIN unobserved_before a ON a.run_id = n.run_id AND a.ordinal = n.ordinal
  LEFT JOIN unobserved_before b ON b.run_id = n.run_id AND b.ordinal = n.ordinal + n.launches
  WHERE n.is_so
), used AS (
  -- Pairs of objects are many: those without a known use are in none.
  SELECT *, coalesce(free_ordinal, end_ordinal) AS ended FROM object_life WHERE first_use_ordinal IS NOT NULL
), reusable AS (
  SELECT
    b.object_id,
    first_value(a.object_id ORDER BY a.size_bytes, a.object_id) AS other_object_id
  FROM used b
  JOIN used a
    ON a.run_id = b.run_id AND a.device_id = b.device_id AND a.object_id <> b.object_id AND a.size_bytes >= b.size_bytes
    AND a.last_use_ordinal <= b.first_use_ordinal AND a.alloc_ordinal <= b.alloc_ordinal AND a.ended > b.alloc_ordinal
  WHERE b.origin <> 'tensor'
  GROUP BY b.object_id
), shown AS (
  SELECT
    pattern, storage_id, allocation_id, object, type, device_id, size_bytes, op, born_at, ordinal, launches,
    peak_ordinal, evidence, CAST(NULL AS BIGINT UNSIGNED) AS other_object_id, CAST(NULL AS BOOLEAN) AS is_certain
  FROM judged
  WHERE NOT is_unknown
  UNION ALL
  SELECT
    'use unknown', storage_id, allocation_id, max(object), max(type), max(device_id), max(size_bytes), max(op), max(born_at),
    first_value(ordinal ORDER BY launches DESC, ordinal), max(launches), max(peak_ordinal), max(evidence),
    CAST(NULL AS BIGINT UNSIGNED), CAST(NULL AS BOOLEAN)
  FROM judged
  WHERE is_unknown
  GROUP BY storage_id, allocation_id
  UNION ALL
  SELECT
    'reusable allocation', l.storage_id, l.allocation_id, l.object, l.type, l.device_id, l.size_bytes, l.op, l.born_at,
    CAST(l.alloc_ordinal AS BIGINT), CAST(coalesce(l.free_ordinal, l.end_ordinal) AS BIGINT) - CAST(l.alloc_ordinal AS BIGINT),
    l.peak_ordinal, l.evidence, CAST(r.other_object_id AS BIGINT UNSIGNED), CAST(NULL AS BOOLEAN)
  FROM reusable r
  JOIN object_life l ON l.object_id = r.object_id
  UNION ALL
  SELECT
    'dead write', l.storage_id, l.allocation_id, l.object, l.type, l.device_id, w.size_bytes, l.op, l.born_at,
    CAST(w.ordinal AS BIGINT), CAST(w.next_ordinal AS BIGINT) - CAST(w.ordinal AS BIGINT), l.peak_ordinal, w.evidence,
    CAST(NULL AS BIGINT UNSIGNED), w.is_certain
  FROM dead_write w
  JOIN object_life l ON l.object_id = w.object_id
)
SELECT
  pattern, storage_id, allocation_id, object, type, device_id, size_bytes, op, born_at, ordinal, launches,
  CAST(size_bytes AS DOUBLE) * launches,
  coalesce(CAST(peak_ordinal AS BIGINT) >= ordinal AND CAST(peak_ordinal AS BIGINT) < ordinal + launches, false), evidence, other_object_id, is_certain
FROM shown
