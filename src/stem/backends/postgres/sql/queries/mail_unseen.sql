-- Subscription.receive: read the messages published after the last one seen.
SELECT number, message FROM {s}.mail
WHERE ns = %(ns)s AND is_channel AND name = %(name)s AND number > %(seen)s AND expires_at > {s}.now_seconds()
ORDER BY number LIMIT %(limit)s
