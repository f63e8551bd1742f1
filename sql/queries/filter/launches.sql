-- Some launches
-- The rows of a table or view with one row per launch, of the launches that a filter chooses.
SELECT *
FROM $view
WHERE kernel_id IN (SELECT kernel_id FROM launch_context WHERE $filter)
