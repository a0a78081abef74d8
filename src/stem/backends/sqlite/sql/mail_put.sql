-- Store a message with its expiry.
INSERT INTO stem_mail (ns, kind, topic, number, expires_at, message) VALUES (?, ?, ?, ?, ?, ?)
