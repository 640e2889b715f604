"""Modules that only programs written for Ray ask for, each at the place where Ray has it:
skate.types is types.py here (_lazy.OF_RAY). They are imported by those names only."""
