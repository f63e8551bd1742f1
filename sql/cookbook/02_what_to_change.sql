-- What should I change first?
-- A fix saves at most saves_percent of all samples. Two findings can speak of the same samples, so never add them
-- up; `stallmap top findings` words them for people, and the column `query` holds the SQL that shows each one's
-- evidence.
-- Capture: inference_views
SELECT
  finding, sentence, advice, round(100.0 * share, 1) AS costs_percent, round(100.0 * saving_share, 1) AS saves_percent
FROM finding
WHERE saving_samples > 0
ORDER BY saving_samples DESC, finding, subject
LIMIT 3
