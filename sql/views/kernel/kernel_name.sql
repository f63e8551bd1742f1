-- One function with a name that is short enough for a sentence.
CREATE VIEW kernel_name (
  -- The function.
  function_id,
  -- Its source-level name.
  kernel,
  -- The name without return type, parameters, template arguments and anonymous namespaces, cut at 64 characters.
  short_kernel
) AS
WITH cut AS (
  SELECT
    function_id, demangled_name,
    regexp_replace(regexp_replace(replace(demangled_name, '(anonymous namespace)::', ''), '[<(].*', ''), '^void ', '')
      AS short_name
  FROM function
)
SELECT
  function_id, demangled_name,
  CASE WHEN character_length(short_name) > 64 THEN left(short_name, 61) || '...' ELSE short_name END
FROM cut
