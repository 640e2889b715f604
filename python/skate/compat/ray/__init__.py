"""Modules that only programs of Ray ask for, each where Ray has it: skate.types is types.py
here (_lazy.OF_RAY). They are imported by those names only."""
