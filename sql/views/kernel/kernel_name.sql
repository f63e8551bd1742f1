-- One function with a name that is short enough for a sentence. No two functions have one label.
CREATE VIEW kernel_name (
  -- The function.
  function_id,
  kernel,
  -- Its label, by `kernel_label`. If several functions have it, with the numbers among the template arguments. If
  -- several have that, too, they are numbered in the order of their first launches.
  short_kernel
) AS
WITH labelled AS (
  SELECT function_id, demangled_name, kernel_label(demangled_name) AS label, kernel_label(demangled_name, 1) AS numbers
  FROM function
), counted AS (
  SELECT *, count(*) OVER (PARTITION BY label) AS functions FROM labelled
), chosen AS (
  SELECT function_id, demangled_name, CASE WHEN functions > 1 THEN numbers ELSE label END AS label FROM counted
), unique_label AS (
  SELECT
    c.*, count(*) OVER (PARTITION BY c.label) AS functions,
    row_number() OVER (PARTITION BY c.label ORDER BY l.kernel_id NULLS LAST, c.function_id) AS number
  FROM chosen c
  LEFT JOIN (SELECT function_id, min(kernel_id) AS kernel_id FROM launch GROUP BY function_id) l ON l.function_id = c.function_id
)
SELECT
  function_id, demangled_name,
  CASE WHEN functions > 1 THEN label || ' #' || CAST(number AS VARCHAR) ELSE label END
FROM unique_label
