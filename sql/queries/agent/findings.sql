-- Findings for agents
-- One row per finding, wrong accesses first, then by saving: id, bounds of the saving, location, advice, and the query of its evidence.
-- A saving is an upper bound. Two findings can share samples.
SELECT
  row_number() OVER (ORDER BY found_by = 'finding_wrong_access' DESC, saving_samples DESC, samples DESC, time_ns DESC NULLS LAST, finding, subject) AS id,
  finding, subject, sentence, advice, kernel, line, op, tensor_id, share, saving_share AS saving_share_high,
  CASE WHEN saving_share IS NOT NULL THEN 0.0 END AS saving_share_low,
  time_ns, found_by, query
FROM finding
ORDER BY id
