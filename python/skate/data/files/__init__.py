"""Paths and URIs of users, file systems, and input and output that is tried again. Calls: nothing
else of skate.data but the settings."""
