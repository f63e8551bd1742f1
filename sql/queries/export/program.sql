-- The recorded program
-- One row per process of the program, with its instrument and the recorded versions.
SELECT
  run_id, CAST(instrument AS VARCHAR) AS instrument, program, process_id, rank, world_size, started_ns, ended_ns,
  cuda_version, torch_version
FROM run
WHERE reference_run_id = run_id
ORDER BY run_id
