-- History.slices: read the first and the last place in line of any task, living or ended.
SELECT least(
    (SELECT min(seq) FROM {s}.messages WHERE ns = %(ns)s AND seq > 0),
    (SELECT min(seq) FROM {s}.records WHERE ns = %(ns)s AND seq > 0)
), greatest(
    (SELECT max(seq) FROM {s}.messages WHERE ns = %(ns)s AND seq > 0),
    (SELECT max(seq) FROM {s}.records WHERE ns = %(ns)s AND seq > 0)
)
