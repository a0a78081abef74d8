"""The sqlite store."""
