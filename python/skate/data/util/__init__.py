"""Helpers of training loops, under Ray's names."""
