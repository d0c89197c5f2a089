"""The paper "A State Representation for Diminishing Rewards" (NeurIPS 2023), reproduced with `wane`.

Each experiment is a file; `collection` lists them, with the paper's places and the kept runs of the paper's scale.
`wane` finds them by an entry point, and never imports this package otherwise.
"""
