"""What people see of a run on a terminal: the lines that tasks print, the progress line, pdb in a
worker."""
