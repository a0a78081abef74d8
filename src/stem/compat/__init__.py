"""Other libraries' ways of saying what Stem does."""
