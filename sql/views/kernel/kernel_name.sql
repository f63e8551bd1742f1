-- One function with a name that is short enough for a sentence. No two functions have one label.
CREATE VIEW kernel_name (
  -- The function.
  function_id,
  -- Its source-level name.
  kernel,
  -- Its label, by `kernel_label`. If several functions have it, with the numbers among the template arguments. If
  -- several have that, too, with the beginning of function_id.
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
  SELECT *, count(*) OVER (PARTITION BY label) AS functions FROM chosen
)
SELECT
  function_id, demangled_name,
  CASE WHEN functions > 1 THEN label || ' #' || substr(lpad(to_hex(function_id), 16, '0'), 1, 8) ELSE label END
FROM unique_label
