"""What voiced costs, measured beside what it cannot avoid: `tools/bench`.

Nothing here is a test: a figure is printed with the machine it is of, and a ratio is of two things measured in one run.
"""
