-- One function with decoded code: its memory instructions, and the number of those that the recording observed.
--
-- The recorder patches the spaces that `--spaces` names. Generic instructions count as global.
CREATE VIEW function_coverage (
  -- The function.
  function_id,
  -- Instructions that access memory, except constant memory.
  memory_instruction_count,
  -- Instructions among these that the recording observed.
  observed_count,
  -- Instructions among these that `--spaces` excluded.
  left_out_count,
  -- Instructions among these that the recorder never observes: tensor maps, bulk copies, textures. If shared memory is
  -- recorded, also matrices in it and shared memory of other blocks.
  unpatched_count
) AS
WITH space AS (
  -- A recording without a list of patched spaces has patched all.
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
