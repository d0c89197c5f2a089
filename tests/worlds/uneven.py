"""A map that is neither square nor symmetric."""

UNEVEN = """
    #######
    #a..#.#
    #.#..b#
    #######
"""
