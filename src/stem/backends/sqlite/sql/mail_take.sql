-- Delete the messages of a box up to this number, in the transaction that read them, so that each goes to one receiver only.
DELETE FROM stem_mail WHERE ns = ? AND kind = 'box' AND topic = ? AND number <= ?
