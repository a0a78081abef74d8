-- What a job has staged.
SELECT name, number, rows FROM beside.parts
