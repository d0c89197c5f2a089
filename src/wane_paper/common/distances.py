"""Distances between the sites of a world."""

from collections import deque

from wane.worlds.world import World


def steps_to_sites(world: World, start: int) -> dict[int, int]:
    """Returns the steps from a state to each other site that can be reached without crossing a third site."""
    sites = {int(cell) for cell in world.sites}
    steps, queue = {start: 0}, deque([start])
    while queue:
        cell = queue.popleft()
        for each in map(int, world.tables.next_states[cell] if cell == start or cell not in sites else ()):
            if each not in steps:
                steps[each] = steps[cell] + 1
                queue.append(each)
    return {cell: number for cell, number in steps.items() if cell in sites and cell != start}
