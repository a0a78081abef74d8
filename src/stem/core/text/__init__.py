"""Text and JSON: encoding, escaping, masking, fingerprints, URLs and host names."""
