"""Modules that only programs written for Ray import, each at the same path as in Ray: skate.types
is types.py here (_lazy.OF_RAY). They can be imported by these names only."""
