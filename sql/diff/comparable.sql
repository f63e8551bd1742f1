-- Comparability
-- Facts of the first capture next to those of another. caution: the numbers below may differ for this reason, too.
-- normalized: the numbers below are made comparable. not comparable: they cannot be.
WITH kind AS (
  SELECT column1 AS position, column2 AS fact, column3 AS verdict, column4 AS meaning
  FROM (VALUES
    (1, 'GPU', '$if_samples', 'other GPUs take other time for the same work'),
    (2, 'GPUs used', 'marked', 'the work is spread otherwise'),
    (3, 'multiprocessors', '$if_cost', 'a sample stands for other time: samples are compared as time'),
    (4, 'SM clock, MHz', '$if_cost', 'a sample stands for other time: samples are compared as time'),
    (5, 'memory clock, MHz', 'marked', 'memory answers at another speed'),
    (6, 'driver', 'marked', 'the driver may choose and schedule otherwise'),
    (7, 'CUDA', 'marked', 'libraries may choose other kernels'),
    (8, 'torch', 'marked', 'torch may choose other kernels and other ops'),
    (9, 'Python', 'marked', 'lines and stacks may differ'),
    (10, 'program', 'marked', 'the programs may do other work'),
    (11, 'arguments', 'marked', 'the program may do other work'),
    (12, 'sampling period, cycles', '$if_cost', 'a sample stands for other time: samples are compared as time'),
    (13, 'samples are of', 'marked', 'kernels run alone in replays, and after each other in the program'),
    (14, 'launches sampled', 'marked', 'what was not sampled costs nothing below'),
    (15, 'samples dropped', 'marked', 'time allows for them, samples do not'),
    (16, 'accesses recorded', 'marked', 'what tensors bear is known as far as accesses are'),
    (17, 'requests missed', 'marked', 'sectors and bytes are those of the others'),
    (18, 'steps', '$if_steps', 'captures of other lengths compare by step'),
    (19, 'launches', 'marked', 'other launches, or more of the same work: --per launch compares one'),
    (20, 'kernels of code in all captures', 'marked', 'other code compares by its name, its instructions together'),
    (21, 'shapes of tensors in all captures', 'marked', 'tensors of other shapes compare by where they were born'),
    (22, 'launches that repeat another', 'marked', 'how launches differ is not known: $spread of each is taken for it (--spread)')
  )
), fact AS (
  SELECT
    k.capture, f.*,
    coalesce(CASE f.position
      WHEN 1 THEN k.name
      WHEN 2 THEN k.devices
      WHEN 3 THEN k.multiprocessors
      WHEN 4 THEN k.clock
      WHEN 5 THEN k.memory_clock
      WHEN 6 THEN k.driver
      WHEN 7 THEN k.cuda
      WHEN 8 THEN k.torch
      WHEN 9 THEN k.python
      WHEN 10 THEN k.program
      WHEN 11 THEN k.arguments
      WHEN 12 THEN k.period
      WHEN 13 THEN k.source
      WHEN 14 THEN k.sampled
      WHEN 15 THEN k.dropped
      WHEN 16 THEN k.accesses
      WHEN 17 THEN k.missed
      WHEN 18 THEN CAST(k.steps AS VARCHAR)
      WHEN 19 THEN CAST(k.launches AS VARCHAR)
      WHEN 20 THEN CAST(k.shared_kernels AS VARCHAR) || ' of ' || CAST(k.kernels AS VARCHAR)
      WHEN 21 THEN CAST(k.shared_shapes AS VARCHAR) || ' of ' || CAST(k.shapes AS VARCHAR)
      WHEN 22 THEN CAST(k.repeated AS VARCHAR) || ' of ' || CAST(k.launches AS VARCHAR)
    END, '-') AS value,
    -- Incomplete data differs, even if both captures have the same value.
    f.position = 20 AND k.shared_kernels < k.kernels
      OR f.position = 21 AND k.shared_shapes < k.shapes
      OR f.position = 22 AND k.repeated < 2 AS is_partial,
    f.position = 13 AND k.source = 'none' AND '$family' = 'cost'
      OR f.position = 16 AND k.accesses = 'none' AND '$family' = 'access' AS is_unknown
  FROM diff_known k
  CROSS JOIN kind f
)
SELECT
  b.fact, b.value AS base_value, x.capture, x.value,
  CASE
    WHEN b.is_unknown OR x.is_unknown THEN 'refused'
    WHEN b.position = 22 AND NOT b.is_partial AND NOT x.is_partial THEN 'same'
    WHEN b.value <> x.value OR b.is_partial OR x.is_partial THEN b.verdict
    ELSE 'same'
  END AS verdict,
  CASE
    WHEN b.is_unknown OR x.is_unknown THEN 'nothing is known of $metric in a capture'
    WHEN b.position = 22 AND NOT b.is_partial AND NOT x.is_partial THEN 'same'
    WHEN b.position = 22 AND NOT b.is_partial AND NOT x.is_partial THEN NULL
    WHEN b.value <> x.value OR b.is_partial OR x.is_partial THEN b.meaning
  END AS meaning
FROM fact b
JOIN fact x ON x.position = b.position
WHERE b.capture = '$base' AND x.capture <> '$base'
ORDER BY b.position, x.capture
