"""Expressions: their methods by type, their values over record batches, their bounds."""
