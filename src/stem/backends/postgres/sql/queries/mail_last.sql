-- Mail.subscribe: read the last number of the channel, where a new subscription begins.
SELECT coalesce(max(number), 0) FROM {s}.mail WHERE ns = %(ns)s AND is_channel AND name = %(name)s
