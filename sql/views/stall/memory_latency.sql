-- Latency of one level of memory on GPUs from one compute capability on, as published: what a load takes alone.
--
-- Sources: Jia and others, Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking (2018), for 7.0. Luo and
-- others, Benchmarking and Dissecting the Nvidia Hopper GPU Architecture (2024), for 8.0, 8.9 and 9.0. Later GPUs take
-- the numbers of 9.0. Those of host memory and the spreads are estimates.
CREATE VIEW memory_latency (
  -- Compute capability from which it holds, times 10: 90 is 9.0.
  compute_capability,
  -- Level: unit (results of the multiprocessor's units, constants among them), shared, L1, L2, device, host.
  level,
  -- Cycles from the issue of a load of one sector to its result.
  latency_cycles,
  -- Standard deviation of the loads of one level, by distance, conflicts and queues.
  spread_cycles,
  -- Cycles of one multiprocessor per cache line of a warp request, while all multiprocessors load.
  line_cycles,
  -- The same for each sector.
  sector_cycles
) AS
SELECT
  compute_capability, level, CAST(latency_cycles AS DOUBLE), CAST(spread_cycles AS DOUBLE),
  CAST(line_cycles AS DOUBLE), CAST(sector_cycles AS DOUBLE)
FROM (VALUES
  (70, 'unit', 20, 6, 0, 0), (70, 'shared', 19, 6, 0, 0), (70, 'L1', 28, 8, 1, 0), (70, 'L2', 193, 40, 1, 0.5),
  (70, 'device', 420, 120, 1, 2), (70, 'host', 2000, 500, 1, 40),
  (80, 'unit', 20, 6, 0, 0), (80, 'shared', 29, 6, 0, 0), (80, 'L1', 38, 8, 1, 0), (80, 'L2', 262, 50, 1, 0.5),
  (80, 'device', 466, 120, 1, 2), (80, 'host', 2000, 500, 1, 40),
  (89, 'unit', 20, 6, 0, 0), (89, 'shared', 30, 6, 0, 0), (89, 'L1', 43, 8, 1, 0), (89, 'L2', 273, 50, 1, 0.5),
  (89, 'device', 542, 140, 1, 2), (89, 'host', 2000, 500, 1, 40),
  (90, 'unit', 20, 6, 0, 0), (90, 'shared', 29, 6, 0, 0), (90, 'L1', 41, 8, 1, 0), (90, 'L2', 263, 50, 1, 0.5),
  (90, 'device', 479, 140, 1, 2), (90, 'host', 2000, 500, 1, 40)
) AS t(compute_capability, level, latency_cycles, spread_cycles, line_cycles, sector_cycles)
