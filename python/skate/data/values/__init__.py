"""Values: Arrow columns as numpy arrays, Python objects and DataFrames, and back."""
