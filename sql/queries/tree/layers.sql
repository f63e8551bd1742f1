-- Layers of call paths
-- One launch and one layer that it works for, with its part of the launch. The parts of a launch add up to 1.
SELECT kernel_id, layer_kind, layer, sum(weight) AS weight
FROM launch_layer
GROUP BY kernel_id, layer_kind, layer
ORDER BY kernel_id, layer
