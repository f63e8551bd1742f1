-- One native stack: its innermost line in the program's own code.
--
-- A frame is the program's own unless its library or its source file lies in a folder of the system, of CUDA or of an
-- installed package, or is a library of PyTorch or CUDA. The functions that nvcc makes for the launch of a kernel are not.
-- A gradient's function of PyTorch stands for the stacks of its own threads.
CREATE VIEW native_line (
  -- Stable hash of the stack.
  native_stack,
  -- The line, as file:line function. Without a line table the function and its library, as function (library).
  line,
  -- True if it has a file and a number.
  has_number,
  -- Its frame.
  native_frame_id,
  -- Frames in the program's own code in the same form, callers first.
  frames
) AS
WITH frame AS (
  SELECT
    native_frame_id, function, line IS NOT NULL AS has_number,
    CASE
      WHEN line IS NULL THEN function || ' (' || regexp_replace(library, '^.*/', '') || ')'
      ELSE regexp_replace(file, '^.*/', '') || ':' || CAST(line AS VARCHAR) || ' ' || function
    END AS text,
    NOT regexp_like(function, '^torch::autograd::(generated::[^:]+::apply|Engine::evaluate_function)$') AND (
      regexp_like(library, '(site|dist)-packages/|^/(usr/)?lib(32|64)?/|/cuda[^/]*/|/lib(64)?/python[0-9.]+/|/python[0-9.]*$')
      OR regexp_like(library, '/lib(torch|c10|python[0-9]|cu(da|dart|blas|dnn|fft|sparse|solver|rand)|nccl|nvrtc|stdc)[^/]*[.]so[^/]*$')
      OR regexp_like(coalesce(file, ''), '(site|dist)-packages/|^/usr/(local/)?include/|/cuda[^/]*/.*include/|/include/c[+][+]/')
      -- CUDA's runtime, where it is a part of the program.
      OR (file IS NULL AND regexp_like(function, '^(libcudart_static_|__cudart|cu(da)?[A-Z]|_start$)'))
    ) AS is_foreign,
    regexp_like(function, '__(wrapper__)?device_stub_') OR coalesce(file, '') LIKE '%.stub.c' AS is_stub,
    regexp_replace(regexp_replace(function, '<.*$', ''), '^.*::', '') AS short_name
  FROM native_frame
  WHERE function IS NOT NULL AND library IS NOT NULL
), stub AS (
  SELECT
    s.native_stack, max(s.depth) AS depth,
    regexp_replace(first_value(f.function ORDER BY s.depth DESC), '<.*$', '') AS function
  FROM native_state s
  JOIN frame f ON f.native_frame_id = s.native_frame_id
  WHERE f.is_stub
  GROUP BY s.native_stack
), own AS (
  SELECT s.native_stack, s.depth, f.native_frame_id, f.text, f.has_number
  FROM native_state s
  JOIN frame f ON f.native_frame_id = s.native_frame_id
  LEFT JOIN stub c ON c.native_stack = s.native_stack
  WHERE NOT f.is_foreign AND coalesce(s.depth > c.depth, true)
    -- The kernel's own name, as a function of the host that calls the stub.
    AND NOT coalesce(
      s.depth = c.depth + 1
        AND (c.function IN ('__wrapper__device_stub_' || f.short_name, '__device_stub__' || f.short_name)
          OR strpos(c.function, CAST(length(f.short_name) AS VARCHAR) || f.short_name) > 0),
      false
    )
)
SELECT
  native_stack,
  first_value(text ORDER BY has_number DESC, depth),
  bool_or(has_number),
  first_value(native_frame_id ORDER BY has_number DESC, depth),
  array_agg(text ORDER BY depth DESC)
FROM own
GROUP BY native_stack
