-- One launch that counts as a launch of the program.
--
-- A launch of a further run that matches none of the defining run's is none: it is one of them again. Its samples count as
-- cost all the same.
CREATE VIEW program_launch (
  kernel_id,
  -- The defining run: that of `launch`.
  run_id
) AS
WITH again AS (
  SELECT r.run_id
  FROM run r
  JOIN (SELECT DISTINCT run_id FROM launch) p ON p.run_id = r.reference_run_id
  WHERE r.run_id <> r.reference_run_id
)
SELECT l.kernel_id, l.run_id
FROM launch l
LEFT ANTI JOIN again a ON a.run_id = l.run_id
