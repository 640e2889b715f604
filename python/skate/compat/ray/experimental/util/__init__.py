"""Small tools of experimental modules."""
