"""Modules that only programs of Ray ask for, each where Ray has it: skate.util.debug is util/debug.py
here (_lazy.OF_RAY). They are imported by those names only."""
