-- Coverage of machine code: decoded kernels and observed memory instructions, as rows of `coverage`.
CREATE VIEW code_coverage (
  position,
  item,
  count,
  -- Total of the item. Null if it has none.
  total,
  -- True if nothing that should be there is missing. Null if a part is expected.
  is_whole,
  -- Explanation.
  detail
) AS
WITH code AS (
  SELECT
    count(*) AS functions,
    sum(CASE WHEN c.is_read THEN 1 ELSE 0 END) AS functions_read,
    sum(c.instruction_count) AS instructions,
    sum(c.unknown_count) AS unknown
  FROM function f
  JOIN function_code c ON c.function_id = f.function_id
  LIMIT 1
), used AS (
  SELECT
    sum(memory_instruction_count) AS instructions, sum(observed_count) AS observed, sum(left_out_count) AS left_out,
    sum(unpatched_count) AS unpatched
  FROM function_coverage c
  JOIN (SELECT DISTINCT function_id FROM launch) l ON l.function_id = c.function_id
  LIMIT 1
), sighted AS (
  SELECT
    sum(CASE WHEN f.observed_count = f.memory_instruction_count THEN 1 ELSE 0 END) AS launches,
    sum(CASE WHEN f.unpatched_count > 0 THEN 1 ELSE 0 END) AS unpatched, count(*) AS all_launches
  FROM launch l
  JOIN function_coverage f ON f.function_id = l.function_id
  LIMIT 1
), searched AS (
  SELECT count(*) AS launches, sum(CASE WHEN l.graph_id IS NULL AND a.held_request_count > 0 THEN 1 ELSE 0 END) AS judged
  FROM launch l
  JOIN launch_access a ON a.kernel_id = l.kernel_id
  LIMIT 1
), fact AS (
  -- Accesses excluded by --spaces are expected to be missing.
  SELECT
    32 AS position, 'memory instructions of launched kernels observed' AS item, observed AS count,
    instructions AS total, CASE WHEN unpatched > 0 THEN false WHEN left_out = 0 THEN true END AS is_whole,
    CASE WHEN unpatched > 0 THEN CAST(unpatched AS VARCHAR) || ' are tensor-map and bulk copies, textures, matrices' END
      AS detail
  FROM used
  WHERE instructions IS NOT NULL AND (SELECT count(*) FROM run WHERE instrument = 'accesses') > 0
  UNION ALL
  SELECT 33, 'launches with all memory instructions observed', launches, all_launches,
    CASE WHEN unpatched > 0 THEN false WHEN launches = all_launches THEN true END, NULL
  FROM sighted
  WHERE all_launches > 0 AND (SELECT count(*) FROM run WHERE instrument = 'accesses') > 0
  UNION ALL
  SELECT 34, 'functions with decoded code', functions_read, functions, functions_read = functions, NULL FROM code
  UNION ALL
  SELECT 35, 'functions without decoded code', count(*), NULL, false, c.reason
  FROM function f
  JOIN function_code c ON c.function_id = f.function_id
  WHERE NOT c.is_read
  GROUP BY c.reason
  UNION ALL
  SELECT 36, 'instructions decoded', instructions - unknown, instructions, unknown = 0, NULL FROM code
  UNION ALL
  SELECT 37, 'launches whose accesses are searched for wrong ones', judged, launches, NULL, 'wrong_access_coverage has each kind'
  FROM searched
  WHERE judged > 0
)
SELECT position, item, CAST(count AS DOUBLE), CAST(total AS DOUBLE), is_whole, detail FROM fact
