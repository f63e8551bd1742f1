-- One function with a name that is short enough for a sentence.
CREATE VIEW kernel_name (
  -- The function.
  function_id,
  -- Its name as the programmer wrote it.
  kernel,
  -- The same without what it returns, its parameters, its template arguments and namespaces that have no name; what is
  -- longer than 64 characters is cut.
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
