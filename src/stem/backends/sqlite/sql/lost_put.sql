-- Remember that this lease was reclaimed.
INSERT OR REPLACE INTO stem_lost (ns, id, fence, at) VALUES (?, ?, ?, ?)
