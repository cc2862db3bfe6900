"""The D-Bus door: names (interface), the daemon's side (service, dispatch), a client's side (client), a bus of our own (private).

`library` alone imports a D-Bus library; the rest speaks in plain Python values.
"""
