-- Each message goes to one receiver only.
DELETE FROM stem_mail WHERE ns = ? AND kind = 'box' AND topic = ? AND number <= ?
