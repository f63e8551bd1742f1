-- One experiment of `stallmap-record replay --ablate`: the samples of the launch that its instructions cost by traffic.
--
-- `ablation_cost.samples` are those that wait for them. `traffic_charge` has the rule.
CREATE VIEW ablation_traffic (
  -- The run of the experiments.
  run_id,
  -- The launch.
  kernel_id,
  -- The n-th experiment on this launch in the run.
  experiment,
  -- Samples of memory stalls by traffic.
  samples,
  -- Their share of all samples of the launch.
  share
) AS
WITH total AS (
  SELECT kernel_id, sum(samples) AS samples FROM sample GROUP BY kernel_id
)
SELECT a.run_id, a.kernel_id, a.experiment, sum(c.samples), sum(c.samples) / nullif(max(t.samples), 0.0)
FROM ablation_instruction a
JOIN traffic_charge c ON c.kernel_id = a.kernel_id AND c.function_id = a.function_id AND c.pc = a.pc
LEFT JOIN total t ON t.kernel_id = a.kernel_id
GROUP BY a.run_id, a.kernel_id, a.experiment
