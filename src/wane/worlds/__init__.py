"""Where an agent lives: maps, the catalogue of worlds, what an agent sees, Gymnasium environments and pictures.

The Gymnasium environments and the pictures are imported when they are first used, so that a simulation loads neither
Gymnasium nor matplotlib nor Pillow.
"""

from typing import TYPE_CHECKING

from wane.lazy import attach
from wane.worlds.catalog import make, names, register, shortest_paths
from wane.worlds.endless import EndlessField
from wane.worlds.grid import ACTIONS, Map
from wane.worlds.mdp_world import MDPWorld
from wane.worlds.observe import OBSERVATIONS, Cell, FirstPerson, Index, Observation, OneHot, Seen, Symbolic, TopDown
from wane.worlds.pixels import FirstPersonView
from wane.worlds.top_down import TopDownView
from wane.worlds.world import State, World

if TYPE_CHECKING:
    from wane.worlds import describe as describe
    from wane.worlds import draw as draw
    from wane.worlds import film as film
    from wane.worlds import gym as gym
    from wane.worlds.depleting import Depleting, DepletingVector
    from wane.worlds.gym import Environment, VectorEnvironment

__all__ = [
    "ACTIONS",
    "OBSERVATIONS",
    "Cell",
    "Depleting",
    "DepletingVector",
    "EndlessField",
    "Environment",
    "FirstPerson",
    "FirstPersonView",
    "Index",
    "MDPWorld",
    "Map",
    "Observation",
    "OneHot",
    "Seen",
    "State",
    "Symbolic",
    "TopDown",
    "TopDownView",
    "VectorEnvironment",
    "World",
    "make",
    "names",
    "register",
    "shortest_paths",
]

__getattr__, __dir__ = attach(__name__)
