"""Readers: what all formats share; formats/ has one module per format."""
