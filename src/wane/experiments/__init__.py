"""One figure of the paper a file: its settings, its computation, its picture."""
