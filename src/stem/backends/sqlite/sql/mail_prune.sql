-- Delete expired messages.
DELETE FROM stem_mail WHERE (ns, kind, topic, number) IN (
    SELECT ns, kind, topic, number FROM stem_mail WHERE ns = ? AND expires_at <= ? LIMIT ?
)
