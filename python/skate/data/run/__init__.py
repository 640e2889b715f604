"""Runs of plans in the driver: the engine, blocks, errors as users see them, progress, stats,
Datasets in workers. Calls: plan and what is below it. Begin at execute.py."""
