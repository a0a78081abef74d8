"""Stores as earlier versions wrote them."""
