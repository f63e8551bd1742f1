-- Which changes save most?
-- A fix saves up to saves_percent of all samples. Two findings can share samples, so savings do not add up. `stallmap
-- top findings` prints them as sentences, and the column `query` holds the SQL for each one's evidence.
-- Capture: inference_views
SELECT
  finding, sentence, advice, round(100.0 * share, 1) AS costs_percent, round(100.0 * saving_share, 1) AS saves_percent
FROM finding
WHERE saving_samples > 0
ORDER BY saving_samples DESC, finding, subject
LIMIT 3
