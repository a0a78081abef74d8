"""Text and JSON: encoding, escaping, masking, fingerprints."""
