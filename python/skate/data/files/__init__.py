"""Users' paths and URIs, file systems, and input and output with retries. Of skate.data, these
modules call only the settings."""
