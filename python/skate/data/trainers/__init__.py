"""Rows and batches for consumers in other processes: ranks of a training, workers of a DataLoader."""
