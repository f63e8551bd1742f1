-- One function whose code is read: its instructions that access memory, and how many of them the recording observed.
--
-- The recorder patches the spaces that `--spaces` names. Generic instructions count as global.
CREATE VIEW function_coverage (
  -- The function.
  function_id,
  -- Instructions that access memory; constants do not count.
  memory_instruction_count,
  -- Those that the recording observed.
  observed_count,
  -- Those of spaces that `--spaces` left out.
  left_out_count,
  -- Those that the recorder never observes: tensor maps, bulk copies, textures; where shared memory is recorded, matrices
  -- in it and shared memory of other blocks.
  unpatched_count
) AS
WITH space AS (
  -- A recording that does not say what it patched has patched all.
  SELECT
    coalesce(bool_and(strpos(o.value, 'global') > 0), true) AS has_global,
    coalesce(bool_and(strpos(o.value, 'shared') > 0), true) AS has_shared,
    coalesce(bool_and(strpos(o.value, 'local') > 0), true) AS has_local
  FROM run_option o
  JOIN run r ON r.run_id = o.run_id
  LEFT ANTI JOIN (SELECT DISTINCT run_id FROM replay) p ON p.run_id = o.run_id
  WHERE o.name = 'spaces' AND r.instrument = 'accesses'
), counted AS (
  SELECT
    c.function_id,
    CAST(c.global_access_count AS BIGINT) + CAST(c.shared_access_count AS BIGINT) + CAST(c.local_access_count AS BIGINT)
      + CAST(c.unpatched_shared_access_count AS BIGINT) + CAST(c.unpatched_access_count AS BIGINT) AS instructions,
    CASE WHEN s.has_global THEN CAST(c.global_access_count AS BIGINT) ELSE 0 END
      + CASE WHEN s.has_shared THEN CAST(c.shared_access_count AS BIGINT) ELSE 0 END
      + CASE WHEN s.has_local THEN CAST(c.local_access_count AS BIGINT) ELSE 0 END AS observed,
    CAST(c.unpatched_access_count AS BIGINT)
      + CASE WHEN s.has_shared THEN CAST(c.unpatched_shared_access_count AS BIGINT) ELSE 0 END AS unpatched
  FROM function_code c
  CROSS JOIN space s
  WHERE c.is_read
)
SELECT function_id, instructions, observed, instructions - observed - unpatched, unpatched FROM counted
