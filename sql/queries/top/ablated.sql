-- Tensors by measured cost
-- Launches that ran again without the accesses of one tensor (`stallmap-record replay --ablate`), or of several that
-- share instructions. share: part of their time that its accesses cost, with warm caches. saved: that time. low to high
-- is its 95 % confidence interval. cold: the share with flushed caches. charged: the share of the launches' samples that
-- it costs. waits: the share that waits for it. Savings of different tensors can overlap and do not add
-- up. refused: experiments that would change the launch's work.
WITH measured AS (
  SELECT
    coalesce(label, 'memory that is not known') AS label, is_cold, count(*) AS launches, count(refusal) AS refused,
    sum(CASE WHEN saved_ns IS NOT NULL THEN whole_ns END) AS whole_ns,
    sum(saved_ns) AS saved_ns, sum(saved_low_ns) AS low_ns, sum(saved_high_ns) AS high_ns,
    sum(CASE WHEN saved_ns IS NOT NULL THEN charged_share * whole_ns END) AS charged_ns,
    sum(CASE WHEN saved_ns IS NOT NULL THEN waited_share * whole_ns END) AS waited_ns,
    max(refusal) AS refusal
  FROM ablation_cost
  WHERE target IN ('tensor', 'tensors')
  GROUP BY coalesce(label, 'memory that is not known'), is_cold
), both_states AS (
  SELECT
    w.label, w.launches, w.refused, w.saved_ns, w.low_ns, w.high_ns, w.refusal,
    w.saved_ns / nullif(w.whole_ns, 0.0) AS saved_share, w.charged_ns / nullif(w.whole_ns, 0.0) AS charged_share,
    w.waited_ns / nullif(w.whole_ns, 0.0) AS waited_share,
    c.saved_ns / nullif(c.whole_ns, 0.0) AS cold_share
  FROM measured w
  LEFT JOIN measured c ON c.label = w.label AND c.is_cold
  WHERE NOT w.is_cold
), placed AS (
  SELECT *, row_number() OVER (ORDER BY saved_ns DESC NULLS LAST, launches DESC, label) AS place FROM both_states
)
SELECT
  saved_share AS share, saved_ns, low_ns, high_ns, cold_share AS cold, charged_share AS charged, waited_share AS waits,
  launches, refused, label AS tensor, CASE WHEN refused = launches THEN refusal END AS refusal
FROM placed
WHERE place <= $top
ORDER BY place
