"""A world from a text map.

Walls are `#`, free cells are dots, and letters name places. From this one definition come an MDP, a simulator, a
Gymnasium environment and pictures. The film shows the optimal policy.
"""

import jax

import wane
from wane.agents.planner import follow, plan
from wane.worlds import World

garden = World(
    """
    #########
    #p...#.a#
    #....#..#
    #.S.....#
    #....#..#
    #q...#..#
    #########
    """,
    sites="paq",
    rewards=[3.0, 4.0, 2.0],
    start="S",
    depletion=wane.Geometric(0.6),
    discount=0.95,
    horizon=30,
)
print(garden)

# %%
best = plan(garden)
episode = jax.tree_util.tree_map(lambda leaf: leaf[0], follow(jax.random.split(jax.random.key(0), 1), garden, best))
garden.draw(trajectory=episode.cells, title="the optimal walk").savefig("walk.png", dpi=120)
garden.film(episode, "walk_film.gif")
