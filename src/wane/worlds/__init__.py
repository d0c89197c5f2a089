"""Where an agent lives."""

from wane.worlds.catalog import make, names, shortest_paths
from wane.worlds.grid import ACTIONS, Map
from wane.worlds.gym import Depleting, Environment, VectorEnvironment, register
from wane.worlds.observe import OBSERVATIONS
from wane.worlds.pixels import FirstPerson
from wane.worlds.top_down import TopDown
from wane.worlds.world import State, World

__all__ = [
    "ACTIONS",
    "OBSERVATIONS",
    "Depleting",
    "Environment",
    "FirstPerson",
    "Map",
    "State",
    "TopDown",
    "VectorEnvironment",
    "World",
    "make",
    "names",
    "register",
    "shortest_paths",
]
