-- Read the parts of a job and their numbers of pushes.
SELECT name, number, rows FROM beside.parts
