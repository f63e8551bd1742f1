-- Coverage
-- How much of what ran the numbers below know of.
SELECT * FROM coverage
