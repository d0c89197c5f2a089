"""What an agent on a map sees: a first-person view in perspective.

A cell is one unit wide, walls are 1 high, and the eye is ½ high at the centre of a cell. A pinhole camera looks along
the last move. Its focal length, in pixels, is

    f = (size / 2) / tan(field_of_view / 2).

The pixel in column i and row j is the ray forward + x·right − y·up, where x = (i + ½ − size/2) / f, and y is the same
function of j. The ray's parameter is therefore the depth along the camera's axis: a wall at depth d is a strip of
f / d pixels, and the floor in row y is at depth ½ / y.

The paper asks for 128 × 128 pixels, about 60° and rooms that can be told apart; the drawing is ours. Walls and floor
take their hue from where they are, and the sky is warm in the east (right on the map). A site is a ball in a colour
that colour-blind readers can tell apart; its opacity is the fraction of its reward that remains.

A map has only 4 × states views. Each is drawn once, when the object is made; a frame is then a look-up and a blend.

    >>> from wane.worlds.catalog import four_rooms
    >>> world = four_rooms()
    >>> views = FirstPersonView(world.map, world.sites, size=32)
    >>> views.frame(world.map.find("3"), 0, jnp.ones(3)).shape
    (32, 32, 3)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from wane.mdp import check_patches
from wane.types import ArrayLike, Integer
from wane.worlds.colours import place_colour, places_of, site_colours, to_bytes
from wane.worlds.grid import MOVES, Map

EYE_HEIGHT = 0.5
WALL_HEIGHT = 1.0
BALL_RADIUS = 0.3
SHADOW_RADIUS = 1.3 * BALL_RADIUS
SKY, WALL, FLOOR = 0, 1, 2
_LIGHT = np.array([0.48, -0.36, 0.8], np.float32)
"""The direction that the light on the balls comes from: right of the camera, behind it and above it."""
# From the centre of a cell many rays end exactly on an edge. This offset decides on which side, instead of rounding.
_NUDGE = 1e-4
_VIEWS_AT_A_TIME = 16


class Camera(NamedTuple):
    """A pinhole camera with `samples` × `samples` rays in every pixel."""

    size: int
    field_of_view: float
    samples: int

    @property
    def focal_length(self) -> float:
        """The focal length in pixels."""
        return self.size / 2 / float(np.tan(np.radians(self.field_of_view) / 2))

    def offsets(self) -> Float[Array, " rays"]:
        """Returns x of every column of rays; y of every row is the same."""
        n = self.size * self.samples
        return jnp.asarray(((np.arange(n) + 0.5) / self.samples - self.size / 2) / self.focal_length, jnp.float32)


class Scene(eqx.Module):
    """Everything that is drawn, apart from what remains of the sites. Places are (row, column) in cells."""

    free: Bool[Array, "rows columns"]
    eyes: Float[Array, "states 2"]
    balls: Float[Array, "balls 2"]
    """A ball for each cell of each site."""
    site_of: Int[Array, " balls"]
    """The number of the site of each ball."""
    colours: Float[Array, "balls 3"]
    camera: Camera = eqx.field(static=True)


class Surface(NamedTuple):
    """What n × n rays meet first. The rays of a column share a direction, the depth of their wall and its axis."""

    directions: Float[Array, "n 2"]
    wall: Float[Array, " n"]
    axis: Int[Array, " n"]
    kind: Int[Array, "n n"]
    depth: Float[Array, "n n"]
    point: Float[Array, "n n 2"]
    height: Float[Array, "n n"]


def ray_cast(
    free: Bool[Array, "rows columns"], origin: Float[Array, "2"], directions: Float[Array, "n 2"]
) -> tuple[Float[Array, " n"], Int[Array, " n"]]:
    """Returns how far rays go before a wall, in units of their direction, and the axis normal to the face they meet.

    The result is exact: a ray can only be stopped on a grid line, so all lines are tried, and the first one with a wall
    behind it counts. Cells off the map are walls. A ray into the very corner of a wall is stopped by it.
    """
    solid = jnp.pad(~free, 1, constant_values=True)
    depths = jnp.stack([_first_stop(solid, origin, directions, axis) for axis in (0, 1)])
    return depths.min(0), depths.argmin(0)


def _first_stop(
    solid: Bool[Array, "rows columns"], origin: Float[Array, "2"], directions: Float[Array, "n 2"], axis: int
) -> Float[Array, " n"]:
    """Returns the depth of the first wall across one axis, which is infinite if there is none."""
    along, across = directions[:, axis, None], directions[:, 1 - axis, None]
    along = jnp.where(jnp.abs(along) < 1e-9, 1e-9, along)
    steps = jnp.arange(solid.shape[axis] - 1, dtype=jnp.float32)
    start = jnp.floor(origin[axis])
    lines = jnp.where(along > 0, start + 1 + steps, start - steps)
    depth = (lines - origin[axis]) / along
    solid = solid if axis == 0 else solid.T
    behind = _padded(jnp.where(along > 0, lines, lines - 1), solid.shape[0])
    # Both sides of the ray are tested, so that none slips through a corner, or between two walls that touch there.
    side = origin[1 - axis] + depth * across
    hit = solid[behind, _padded(side - 1e-5, solid.shape[1])] | solid[behind, _padded(side + 1e-5, solid.shape[1])]
    return jnp.where(hit, depth, jnp.inf).min(1)


def _padded(coordinate: Float[Array, "..."], length: int) -> Int[Array, "..."]:
    """Returns the index of coordinates in an array that has one cell more on each side."""
    return jnp.clip(jnp.floor(coordinate) + 1, 0, length - 1).astype(jnp.int32)


def _axes(facing: Integer) -> tuple[Float[Array, "2"], Float[Array, "2"]]:
    """Returns the directions forward and right of the camera, as (row, column)."""
    moves = jnp.asarray(MOVES[:4], jnp.float32)
    return moves[facing], moves[(facing + 1) % 4]


def surfaces(scene: Scene, state: Integer, facing: Integer) -> Surface:
    """Returns what each ray of one view meets, without the sites."""
    eye, (forward, right) = scene.eyes[state], _axes(facing)
    x = y = scene.camera.offsets()
    directions = forward + x[:, None] * right
    wall, axis = ray_cast(scene.free, eye, directions)
    height = EYE_HEIGHT - y[:, None] * wall + _NUDGE
    kind = jnp.where(height > WALL_HEIGHT, SKY, jnp.where(height < 0, FLOOR, WALL))
    depth = jnp.where(kind == FLOOR, EYE_HEIGHT / jnp.maximum(y, 1e-6)[:, None], wall)
    return Surface(directions, wall, axis, kind, depth, eye + depth[..., None] * directions, height)


def background(scene: Scene, state: Integer, facing: Integer) -> UInt8[Array, "3 size size"]:
    """Draws one view without the sites."""
    surface = surfaces(scene, state, facing)
    on_floor = surface.kind == FLOOR
    lightness = _haze(surface.depth) * jnp.where(on_floor, _checks(surface), _bricks(surface))
    # A wall has the hue of the cell in front of it, so that its two sides differ.
    normal = jnp.where(surface.axis[:, None] == jnp.arange(2), jnp.sign(surface.directions), 0)
    place = jnp.where(on_floor[..., None], surface.point, surface.point - 0.5 * normal)
    colour = place_colour(place, scene.free.shape, lightness, jnp.where(on_floor, 0.06, 0.14))
    return _to_planes(jnp.where(surface.kind[..., None] == SKY, _sky(surface, scene.camera), colour), scene.camera)


def _to_planes(image: Float[Array, "rays rays channels"], camera: Camera) -> UInt8[Array, "channels size size"]:
    """Averages over the rays of each pixel, and puts the colour first."""
    n, k = camera.size, camera.samples
    return jnp.moveaxis(to_bytes(image.reshape(n, k, n, k, -1).mean((1, 3))), -1, 0)


def _bricks(surface: Surface) -> Float[Array, "n n"]:
    """Returns the lightness of walls: six courses of bricks, all a little different, and each side in its own light."""
    along = jnp.where(surface.axis == 0, surface.point[..., 1], surface.point[..., 0])
    inward = jnp.where(surface.axis == 0, surface.directions[:, 0], surface.directions[:, 1]) > 0
    face = 2 * surface.axis.astype(jnp.int32) + inward.astype(jnp.int32)
    course = jnp.floor(6 * surface.height)
    brick = 2 * along + 0.5 * (course % 2)
    mortar = ((6 * surface.height) % 1 < 0.14) | (brick % 1 < 0.05)
    # Far bricks are finer than a pixel: without contrast they do not flicker.
    near = 1 / (1 + (surface.depth / 4) ** 2)
    grain = jnp.where(mortar, -0.28, 0.2 * (_noise(jnp.floor(brick), course, face) - 0.5))
    return (1 + near * grain) * jnp.asarray([0.62, 0.5, 0.54, 0.67], jnp.float32)[face]


def _noise(*keys: Float[Array, "..."] | Int[Array, "..."]) -> Float[Array, "..."]:
    """Returns numbers in [0, 1) that look random, and are the same for the same whole numbers."""
    mixed = jnp.uint32(2166136261)
    for key in keys:
        mixed = (mixed ^ key.astype(jnp.int32).astype(jnp.uint32)) * jnp.uint32(2654435761)
        mixed = mixed ^ (mixed >> jnp.uint32(15))
    return (mixed & jnp.uint32(1023)).astype(jnp.float32) / 1024


def _checks(surface: Surface) -> Float[Array, "n n"]:
    """Returns the lightness of the floor, one tile for each cell."""
    return 0.72 + 0.07 * (jnp.floor(surface.point + _NUDGE).sum(-1) % 2)


def _sky(surface: Surface, camera: Camera) -> Float[Array, "n n 3"]:
    """Returns the colour of the sky, which is warm in the east and deep blue above."""
    east = (1 + surface.directions[:, 1:] / jnp.linalg.norm(surface.directions, axis=1, keepdims=True)) / 2
    up = jnp.clip(-2 * camera.focal_length / camera.size * camera.offsets(), 0, 1)[:, None, None]
    horizon = jnp.asarray([196, 217, 236], jnp.float32) + east**2 * jnp.asarray([55, 5, -70], jnp.float32)
    return (1 - up) * horizon + up * jnp.asarray([72, 128, 196], jnp.float32)


def _haze(depth: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Returns how light things are: they grow darker with distance."""
    return 0.65 + 0.35 / (1 + (depth / 5) ** 2)


def layer(scene: Scene, state: Integer, facing: Integer, ball: Integer) -> UInt8[Array, "4 size size"]:
    """Draws the ball of a fresh site in one view: colour times opacity, then opacity."""
    underfoot = jnp.all(scene.eyes[state] == scene.balls[ball])
    image = jnp.where(underfoot, _glow(scene, ball), _ball(scene, state, facing, ball))
    return _to_planes(image, scene.camera)


def _ball(scene: Scene, state: Integer, facing: Integer, number: Integer) -> Float[Array, "n n 4"]:
    """Draws a ball on the floor and its shadow, where no wall is in front of them."""
    surface, (forward, right) = surfaces(scene, state, facing), _axes(facing)
    x, y = jnp.meshgrid(scene.camera.offsets(), scene.camera.offsets())
    rays = jnp.stack([x, jnp.ones_like(x), -y], -1)
    away = scene.balls[number] - scene.eyes[state]
    centre = jnp.stack([away @ right, away @ forward, jnp.float32(BALL_RADIUS - EYE_HEIGHT)])
    # A ray meets the ball at the nearer root of |depth·ray − centre|² = radius².
    a, b, c = (rays**2).sum(-1), rays @ centre, (centre**2).sum() - BALL_RADIUS**2
    root = b**2 - a * c
    depth = (b - jnp.sqrt(jnp.maximum(root, 0))) / a
    ball = (root > 0) & (depth > 0) & (depth < surface.wall)
    lit = jnp.maximum((depth[..., None] * rays - centre) @ _LIGHT / BALL_RADIUS, 0)[..., None]
    colour = scene.colours[number] * (0.5 + 0.5 * lit) * _haze(depth)[..., None] + 150 * lit**24
    distance = jnp.linalg.norm(surface.point - scene.balls[number], axis=-1)
    darkness = 0.55 * jnp.clip((SHADOW_RADIUS - distance) / BALL_RADIUS, 0, 1)
    shadow = jnp.where(surface.kind == FLOOR, darkness, 0)[..., None]
    opaque = jnp.concatenate([jnp.clip(colour, 0, 255), jnp.full_like(lit, 255)], -1)
    return jnp.where(ball[..., None], opaque, jnp.concatenate([jnp.zeros_like(colour), 255 * shadow], -1))


def _glow(scene: Scene, ball: Integer) -> Float[Array, "n n 4"]:
    """Draws the site that the agent stands on: a dome of its colour that rises from the bottom of the frame."""
    across = jnp.linspace(-1, 1, scene.camera.size * scene.camera.samples, dtype=jnp.float32)
    x, y = jnp.meshgrid(across, across)
    dome = jnp.clip(3 * (1 - jnp.hypot(x / 1.25, (y - 1.35) / 1.05)), 0, 0.9)[..., None]
    return jnp.concatenate([dome * scene.colours[ball], 255 * dome], -1)


class FirstPersonView(eqx.Module):
    """What an agent sees from the centre of its cell, looking the way it last moved.

    `frame(state, facing, fraction)` is a pure function, for `jit` and `vmap`. The facing is 0 up, 1 right, 2 down,
    3 left; the fraction (sites,) is what remains of every site, from 0 to 1. With `cache=False` it casts its rays anew
    each time, which is much slower and works for maps of any size.
    """

    scene: Scene
    cache: "Cache | None"

    def __init__(
        self,
        map: Map,
        sites: Any,
        *,
        size: int = 128,
        field_of_view: float | int = 60.0,
        samples: int = 2,
        cache: bool = True,
        cache_limit: int = 2**30,
    ) -> None:
        states, site_of = places_of(check_patches(sites, map.n_states))
        if size < 1 or samples < 1:
            raise ValueError(f"size and samples count pixels and rays, at least 1 each; got {size} and {samples}")
        if not 0 < field_of_view < 180:
            raise ValueError(f"field_of_view is an angle in degrees, between 0 and 180; got {field_of_view}")
        places = jnp.asarray(map.cells + 0.5, jnp.float32)
        camera = Camera(int(size), float(field_of_view), int(samples))
        self.scene = Scene(jnp.asarray(map.free), places, places[states], site_of, site_colours(site_of), camera)
        self.cache = _fill(self.scene, cache_limit) if cache else None

    def frame(self, state: Integer, facing: Integer, fraction: ArrayLike) -> UInt8[Array, "size size 3"]:
        """Returns the picture, RGB, from a state, with a fraction from 0 to 1 of each site."""
        fraction = jnp.clip(jnp.asarray(fraction, jnp.float32), 0, 1)
        draw = self._cast if self.cache is None else self.cache.blend
        # Colour comes last only in the result: blending whole planes is twice as fast as pixel by pixel.
        return jnp.moveaxis(to_bytes(draw(state, facing, fraction)), 0, -1)

    def _cast(self, state: Integer, facing: Integer, fraction: Float[Array, " sites"]) -> Float[Array, "3 size size"]:
        """Draws a view from scratch."""

        def draw(image: Array, ball: Array) -> tuple[Array, None]:
            fresh = layer(self.scene, state, facing, ball)
            return _over(fresh, fraction[self.scene.site_of[ball]], image), None

        image = background(self.scene, state, facing).astype(jnp.float32)
        if not len(self.scene.balls):
            return image
        far_first = jnp.argsort(-jnp.square(self.scene.balls - self.scene.eyes[state]).sum(-1))
        return jax.lax.scan(draw, image, far_first)[0]


class Cache(eqx.Module):
    """All views of a scene. The balls in a view fill its slots from far to near; layer 0 is empty."""

    backgrounds: UInt8[Array, "views 3 size size"]
    layers: UInt8[Array, "layers 4 size size"]
    slot_layer: Int[Array, "views slots"]
    slot_site: Int[Array, "views slots"]

    def blend(self, state: Integer, facing: Integer, fraction: Float[Array, " sites"]) -> Float[Array, "3 size size"]:
        """Looks a view up and puts its sites in front of it."""
        view = 4 * state + facing
        image = self.backgrounds[view].astype(jnp.float32)
        for slot in range(self.slot_site.shape[1]):
            site = self.slot_site[view, slot]
            image = _over(self.layers[self.slot_layer[view, slot]], fraction[site], image)
        return image


def _over(
    picture: UInt8[Array, "4 size size"], fraction: Float[Array, ""], image: Float[Array, "3 size size"]
) -> Float[Array, "3 size size"]:
    """Puts a layer in front of an image; its opacity is multiplied by the fraction that remains."""
    layer = picture.astype(jnp.float32) * fraction
    return image * (1 - layer[3] / 255) + layer[:3]


def _fill(scene: Scene, limit: int) -> Cache:
    """Draws all views of a scene. Raises ValueError if they need more than `limit` bytes."""
    n_views, size = 4 * len(scene.eyes), scene.camera.size
    view, ball = _in_sight(scene)
    needed = (3 * n_views + 4 * (len(view) + 1)) * size**2
    if needed > limit:
        raise ValueError(
            f"{n_views} views of {size} × {size} pixels and {len(view)} sights of a site need {needed / 2**20:.0f} "
            f"MiB, more than cache_limit = {limit / 2**20:.0f} MiB: take a smaller size, or cache=False"
        )
    views = np.arange(n_views)
    backgrounds = _in_chunks(_backgrounds, scene, views // 4, views % 4)
    layers = (
        _in_chunks(_layers, scene, view // 4, view % 4, ball) if len(view) else np.zeros((0, 4, size, size), np.uint8)
    )
    shown = layers[:, 3].any((1, 2))
    view, ball = view[shown], ball[shown]
    distance = np.linalg.norm(np.asarray(scene.eyes)[view // 4] - np.asarray(scene.balls)[ball], axis=1)
    # Within a view the farthest ball comes first, so that nearer ones are drawn over it.
    order = np.lexsort((-distance, view))
    rank = np.arange(len(order)) - np.searchsorted(view[order], view[order])
    slots = np.zeros((2, n_views, rank.max(initial=-1) + 1), np.int32)
    slots[:, view[order], rank] = order + 1, np.asarray(scene.site_of)[ball[order]]
    layers = np.concatenate([np.zeros((1, 4, size, size), np.uint8), layers[shown]])
    return Cache(*(jnp.asarray(part) for part in (backgrounds, layers, *slots)))


def _in_sight(scene: Scene) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Returns pairs (view, ball) that may show something: the ball's own cell, or a ball that reaches into the view."""
    away = np.asarray(scene.balls) - np.asarray(scene.eyes)[:, None]
    depth, side = (np.einsum("nkc,fc->nfk", away, MOVES[turned]) for turned in ([0, 1, 2, 3], [1, 2, 3, 0]))
    angle = np.radians(scene.camera.field_of_view) / 2
    outside = np.maximum(np.abs(side) * np.cos(angle) - depth * np.sin(angle), -depth)
    visible = (outside < SHADOW_RADIUS) | ((depth == 0) & (side == 0))
    view, ball = np.nonzero(visible.reshape(4 * len(scene.eyes), len(scene.balls)))
    return view, ball


def _in_chunks(draw: Callable[..., Array], scene: Scene, *indices: Int[np.ndarray, " n"]) -> UInt8[np.ndarray, "n ..."]:
    """Returns `draw(scene, …)` for all indices, drawn a few at a time, so that memory does not grow with the map."""
    n = len(indices[0])
    padded = [np.pad(part, (0, -n % _VIEWS_AT_A_TIME), mode="edge") for part in indices]
    chunks = zip(*(part.reshape(-1, _VIEWS_AT_A_TIME) for part in padded), strict=True)
    return np.concatenate([np.asarray(draw(scene, *chunk)) for chunk in chunks])[:n]


# These are made once, so that the next scene of the same shape need not be compiled again.
_backgrounds = eqx.filter_jit(jax.vmap(background, in_axes=(None, 0, 0)))
_layers = eqx.filter_jit(jax.vmap(layer, in_axes=(None, 0, 0, 0)))
