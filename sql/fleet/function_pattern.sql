-- One instruction of one function by the content of its code, in all captures of a fleet: the pattern and cost of its
-- accesses to memory.
CREATE VIEW function_pattern (
  -- The function that holds the instruction: hash of its code and name.
  function_id,
  pc,
  -- Memory space of its accesses, as in `access_cost`.
  memory_space,
  -- Kind of access, as in `access_cost`.
  memory_kind,
  -- The most frequent class of its requests. Null if accesses were not recorded.
  class,
  -- Captures that have such accesses.
  capture_count,
  -- Samples that they caused.
  samples,
  -- Estimated time that they represent, nanoseconds.
  time_ns,
  request_count,
  -- Sectors that they touch.
  sectors,
  -- The fewest sectors that hold the bytes, divided by the sectors.
  efficiency
) AS
SELECT
  function_id, pc, CAST(memory_space AS VARCHAR), CAST(memory_kind AS VARCHAR), CAST(class AS VARCHAR),
  count(DISTINCT capture), sum(samples), sum(time_ns), sum(request_count), sum(sectors),
  CAST(sum(ideal_sectors) AS DOUBLE) / nullif(CAST(sum(sectors) AS DOUBLE), 0.0)
FROM access_cost
GROUP BY function_id, pc, CAST(memory_space AS VARCHAR), CAST(memory_kind AS VARCHAR), CAST(class AS VARCHAR)
