"""Names of Ray's internals that programs look for, where they have a meaning here."""
