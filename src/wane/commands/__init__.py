"""The commands of `wane`. Each is a function whose parameters are its options.

The modules import nothing heavy, so that `wane --help` answers at once: a command imports what it needs when it runs.
"""
