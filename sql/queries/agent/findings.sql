-- Findings for agents
-- One row per finding, wrong accesses first, then by saving: id, bounds of the saving, location, advice, and the query of its evidence.
-- A saving is nanoseconds per step, where it is known, else up to a part of all samples. Two findings can share samples.
SELECT
  row_number() OVER (ORDER BY finding_rank) AS id,
  finding, subject, sentence, advice, kernel, line, op, tensor_id, share, saving_share AS saving_share_high,
  CASE WHEN saving_share IS NOT NULL THEN 0.0 END AS saving_share_low,
  saving_low_ns, saving_high_ns, fix_ns, pays_from, also, time_ns, found_by, query
FROM finding
ORDER BY id
