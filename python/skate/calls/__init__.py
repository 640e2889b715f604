"""What a call is made of: its options, the environment that it takes along, functions and classes
by value, and the errors of user code."""
