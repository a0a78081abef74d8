"""Task definitions: signature, options and retry policy."""
