-- Steps.all: read the steps of a task and the events sent to it, in the order in which they were recorded.
SELECT name, payload, at FROM {s}.steps WHERE ns = %(ns)s AND id = %(id)s ORDER BY number
