-- Comparability
-- Facts of the first capture next to those of another. caution: the numbers below may differ for this reason, too.
-- normalized: the numbers below are made comparable. not comparable: they cannot be.
WITH kind AS (
  SELECT column1 AS position, column2 AS fact, column3 AS verdict, column4 AS meaning
  FROM (VALUES
    (1, 'GPU', '$if_samples', 'different GPUs need different time for the same work'),
    (2, 'GPUs used', 'caution', 'the work is distributed differently'),
    (3, 'multiprocessors', '$if_cost', 'a sample represents a different time: samples are compared as time'),
    (4, 'SM clock, MHz', '$if_cost', 'a sample represents a different time: samples are compared as time'),
    (5, 'memory clock, MHz', 'caution', 'memory runs at another speed'),
    (6, 'driver', 'caution', 'the driver may choose and schedule differently'),
    (7, 'CUDA', 'caution', 'libraries may choose different kernels'),
    (8, 'torch', 'caution', 'torch may choose different kernels and ops'),
    (9, 'Python', 'caution', 'lines and stacks may differ'),
    (10, 'program', 'caution', 'the programs may do different work'),
    (11, 'arguments', 'caution', 'the program may do different work'),
    (12, 'sampling period, cycles', '$if_cost', 'a sample represents a different time: samples are compared as time'),
    (13, 'samples are of', 'caution', 'kernels run alone in replays, and back to back in the program'),
    (14, 'time is', 'caution', 'a measured time and an estimate differ in what they cover'),
    (15, 'launches sampled', 'caution', 'launches without samples cost nothing below'),
    (16, 'samples dropped', 'caution', 'time includes them, samples do not'),
    (17, 'accesses recorded', 'caution', 'attribution to tensors needs accesses'),
    (18, 'requests missed', 'caution', 'sectors and bytes exclude them'),
    (19, 'steps', '$if_steps', 'captures of different lengths compare per step'),
    (20, 'launches', 'caution', 'different launches, or more of the same work: --per launch compares one'),
    (21, 'kernels of code in all captures', 'caution', 'different code compares by name, with its instructions aggregated'),
    (22, 'shapes of tensors in all captures', 'caution', 'tensors of different shapes compare by allocation site'),
    (23, 'launches that repeat another', 'caution', 'the variation of launches is unknown: $spread of each is assumed (--spread)'),
    (24, 'ranks', '$if_steps', 'captures of different numbers of ranks compare per step of a rank')
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
      WHEN 14 THEN k.timing
      -- Measured time needs no samples.
      WHEN 15 THEN CASE WHEN '$family' <> 'time' OR k.timing NOT LIKE 'measured%' THEN k.sampled END
      WHEN 16 THEN k.dropped
      WHEN 17 THEN k.accesses
      WHEN 18 THEN k.missed
      WHEN 19 THEN CAST(k.steps AS VARCHAR)
      WHEN 20 THEN CAST(k.launches AS VARCHAR)
      WHEN 21 THEN CAST(k.shared_kernels AS VARCHAR) || ' of ' || CAST(k.kernels AS VARCHAR)
      WHEN 22 THEN CAST(k.shared_shapes AS VARCHAR) || ' of ' || CAST(k.shapes AS VARCHAR)
      WHEN 23 THEN CAST(k.repeated AS VARCHAR) || ' of ' || CAST(k.launches AS VARCHAR)
      WHEN 24 THEN CAST(k.ranks AS VARCHAR)
    END, '-') AS value,
    -- Incomplete data differs, even if both captures have the same value.
    f.position = 21 AND k.shared_kernels < k.kernels
      OR f.position = 22 AND k.shared_shapes < k.shapes
      OR f.position = 23 AND k.repeated < 2 AS is_partial,
    f.position = 13 AND k.source = 'none' AND '$family' = 'cost'
      OR f.position = 14 AND k.timing = 'none' AND '$family' = 'time'
      OR f.position = 17 AND k.accesses = 'none' AND '$family' = 'access' AS is_unknown,
    f.position = 14 AND '$family' = 'time' AND k.timing LIKE '%measured%' AS is_measured
  FROM diff_known k
  CROSS JOIN kind f
)
SELECT
  b.fact, b.value AS base_value, x.capture, x.value,
  CASE
    WHEN b.is_unknown OR x.is_unknown OR b.is_measured <> x.is_measured THEN 'not comparable'
    WHEN b.position = 23 AND NOT b.is_partial AND NOT x.is_partial THEN 'same'
    WHEN b.fact = 'steps' AND b.value <> x.value AND '0' IN (b.value, x.value) THEN 'caution'
    WHEN b.value <> x.value OR b.is_partial OR x.is_partial THEN b.verdict
    ELSE 'same'
  END AS verdict,
  CASE
    WHEN b.is_unknown OR x.is_unknown THEN '$metric is missing in a capture'
    WHEN b.is_measured <> x.is_measured THEN 'a measured time and an estimate differ in what they cover'
    WHEN b.position = 23 AND NOT b.is_partial AND NOT x.is_partial THEN 'same'
    WHEN b.position = 23 AND NOT b.is_partial AND NOT x.is_partial THEN NULL
    WHEN b.fact = 'steps' AND b.value <> x.value AND '0' IN (b.value, x.value) THEN 'steps are not known of a capture'
    WHEN b.value <> x.value OR b.is_partial OR x.is_partial THEN b.meaning
  END AS meaning
FROM fact b
JOIN fact x ON x.position = b.position
WHERE b.capture = '$base' AND x.capture <> '$base'
ORDER BY b.position, x.capture
