"""What makes voiced an installed program: manual pages, completion, what goes where, tools/install and tools/make-deb.

Standard library only, and nothing of it runs in the daemon: an installer has nothing but a Python.
"""
