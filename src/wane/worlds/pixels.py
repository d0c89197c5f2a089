"""What an agent on a map sees: a first-person view in perspective, and the map from above.

One cell is one unit wide, walls are 1 high, the eye is ½ high at the centre of a cell. A pinhole camera of
focal length

    f = (size / 2) / tan(field_of_view / 2)        pixels

looks along the last move. Column i, row j of the picture is the ray  forward + x·right − y·up  with
x = (i + ½ − size/2) / f and y likewise from j, so the ray's parameter is the depth along the camera's axis: a wall
at depth d is a strip f / d pixels high, and the floor in row y is at depth ½ / y.

The paper asks for 128 × 128 pixels, about 60° and rooms that can be told apart; the drawing is ours. Walls and
floor take their hue from where they are, the sky is warm in the east (right on the map), and a site is a ball in
a colour-blind-safe colour, as opaque as the fraction left of it.

A map has only 4 × states views. Each is cast once, when the object is made; a frame is then a look-up and a blend.

    >>> from wane.worlds.catalog import four_rooms
    >>> world = four_rooms()
    >>> views = FirstPerson(world.map, world.sites, size=32)
    >>> views.frame(world.map.find("3"), 0, jnp.ones(3)).shape
    (32, 32, 3)
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from wane.mdp import check_sites
from wane.worlds.grid import MOVES, Map

EYE_HEIGHT = 0.5
WALL_HEIGHT = 1.0
BALL_RADIUS = 0.3
SHADOW_RADIUS = 1.3 * BALL_RADIUS
SKY, WALL, FLOOR = 0, 1, 2
# Okabe and Ito's colours that can be told apart by everyone, without their black.
SITE_COLOURS = np.array(
    [(213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (240, 228, 66)],
    np.float32,
)
_LIGHT = np.array([0.48, -0.36, 0.8], np.float32)
"""where the light on the balls comes from: right of the camera, behind it, above"""
# From the centre of a cell many rays end exactly on an edge: this decides for them, not the rounding.
_NUDGE = 1e-4
_VIEWS_AT_A_TIME = 16


class Camera(NamedTuple):
    """A pinhole camera with `samples` × `samples` rays in every pixel."""

    size: int
    field_of_view: float
    samples: int

    @property
    def focal_length(self) -> float:
        return self.size / 2 / float(np.tan(np.radians(self.field_of_view) / 2))

    def offsets(self) -> Array:
        """x of every column of rays; y of every row is the same."""
        n = self.size * self.samples
        return jnp.asarray(((np.arange(n) + 0.5) / self.samples - self.size / 2) / self.focal_length, jnp.float32)


class Scene(eqx.Module):
    """Everything that is drawn, apart from what is left of the sites. Places are (row, column) in cells."""

    free: Array
    eyes: Array
    balls: Array
    colours: Array
    camera: Camera = eqx.field(static=True)


class Surface(NamedTuple):
    """What n × n rays meet first. Those of a column share a direction, the depth of their wall and its axis, (n,)."""

    directions: Array
    wall: Array
    axis: Array
    kind: Array
    depth: Array
    point: Array
    height: Array


def ray_cast(free: Array, origin: Array, directions: Array) -> tuple[Array, Array]:
    """How far rays (n, 2) go before a wall, in units of their direction, and the axis across the face they meet.

    Exact: a ray can only be stopped on a grid line, so all lines are tried, and the first that has a wall behind it
    counts. Off the map is wall. A ray into the very corner of a wall is stopped by it.
    """
    solid = jnp.pad(~free, 1, constant_values=True)
    depths = jnp.stack([_first_stop(solid, origin, directions, axis) for axis in (0, 1)])
    return depths.min(0), depths.argmin(0)


def _first_stop(solid: Array, origin: Array, directions: Array, axis: int) -> Array:
    """The depth of the first wall across one axis, infinite if there is none."""
    along, across = directions[:, axis, None], directions[:, 1 - axis, None]
    along = jnp.where(jnp.abs(along) < 1e-9, 1e-9, along)
    steps = jnp.arange(solid.shape[axis] - 1, dtype=jnp.float32)
    start = jnp.floor(origin[axis])
    lines = jnp.where(along > 0, start + 1 + steps, start - steps)
    depth = (lines - origin[axis]) / along
    solid = solid if axis == 0 else solid.T
    behind = _padded(jnp.where(along > 0, lines, lines - 1), solid.shape[0])
    # A hair to either side, so that no ray slips through a corner, or between two walls that touch there.
    side = origin[1 - axis] + depth * across
    hit = solid[behind, _padded(side - 1e-5, solid.shape[1])] | solid[behind, _padded(side + 1e-5, solid.shape[1])]
    return jnp.where(hit, depth, jnp.inf).min(1)


def _padded(coordinate: Array, length: int) -> Array:
    return jnp.clip(jnp.floor(coordinate) + 1, 0, length - 1).astype(jnp.int32)


def _axes(facing) -> tuple[Array, Array]:
    """Forward and right of the camera, as (row, column)."""
    moves = jnp.asarray(MOVES[:4], jnp.float32)
    return moves[facing], moves[(facing + 1) % 4]


def surfaces(scene: Scene, state, facing) -> Surface:
    """What is seen along each ray of one view, without the sites."""
    eye, (forward, right) = scene.eyes[state], _axes(facing)
    x = y = scene.camera.offsets()
    directions = forward + x[:, None] * right
    wall, axis = ray_cast(scene.free, eye, directions)
    height = EYE_HEIGHT - y[:, None] * wall + _NUDGE
    kind = jnp.where(height > WALL_HEIGHT, SKY, jnp.where(height < 0, FLOOR, WALL))
    depth = jnp.where(kind == FLOOR, EYE_HEIGHT / jnp.maximum(y, 1e-6)[:, None], wall)
    return Surface(directions, wall, axis, kind, depth, eye + depth[..., None] * directions, height)


def background(scene: Scene, state, facing) -> Array:
    """One view without the sites: (3, size, size) bytes."""
    seen = surfaces(scene, state, facing)
    on_floor = seen.kind == FLOOR
    lightness = _haze(seen.depth) * jnp.where(on_floor, _checks(seen), _bricks(seen))
    # A wall has the hue of the cell in front of it, so that its two sides differ.
    normal = jnp.where(seen.axis[:, None] == jnp.arange(2), jnp.sign(seen.directions), 0)
    place = jnp.where(on_floor[..., None], seen.point, seen.point - 0.5 * normal)
    colour = place_colour(place, scene.free.shape, lightness, jnp.where(on_floor, 0.06, 0.14))
    return _to_planes(jnp.where(seen.kind[..., None] == SKY, _sky(seen, scene.camera), colour), scene.camera)


def _to_planes(image: Array, camera: Camera) -> Array:
    """The mean over the rays of each pixel, colour first."""
    n, k = camera.size, camera.samples
    return jnp.moveaxis(to_bytes(image.reshape(n, k, n, k, -1).mean((1, 3))), -1, 0)


def to_bytes(image: Array) -> Array:
    return jnp.clip(jnp.round(image), 0, 255).astype(jnp.uint8)


def place_colour(place: Array, shape: tuple[int, ...], lightness, chroma) -> Array:
    """The colour of places (…, 2) on the map, 0 to 255: one hue for each corner, smooth between them.

    The right is lighter than the left, for those who do not see hues; chroma is in units of lightness.
    """
    down, right = jnp.moveaxis(jnp.tanh(5 * place / jnp.asarray(shape, jnp.float32) - 2.5), -1, 0)
    return oklab(jnp.stack([1 + 0.12 * right, chroma * down, -chroma * right], -1) * lightness[..., None])


def oklab(colour: Array) -> Array:
    """Oklab to sRGB, 0 to 255 (Ottosson 2020)."""
    light, a, b = jnp.moveaxis(colour, -1, 0)
    l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s
    green = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s
    blue = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s
    linear = jnp.clip(jnp.stack([red, green, blue], -1), 0.0031308, 1)
    return 255 * (1.055 * linear ** (1 / 2.4) - 0.055)


def _bricks(seen: Surface) -> Array:
    """The lightness of walls: six courses of bricks, each brick a little different, each side in its own light."""
    along = jnp.where(seen.axis == 0, seen.point[..., 1], seen.point[..., 0])
    inward = jnp.where(seen.axis == 0, seen.directions[:, 0], seen.directions[:, 1]) > 0
    face = 2 * seen.axis.astype(jnp.int32) + inward.astype(jnp.int32)
    course = jnp.floor(6 * seen.height)
    brick = 2 * along + 0.5 * (course % 2)
    mortar = ((6 * seen.height) % 1 < 0.14) | (brick % 1 < 0.05)
    # Far bricks are finer than a pixel: their contrast goes before they flicker.
    near = 1 / (1 + (seen.depth / 4) ** 2)
    grain = jnp.where(mortar, -0.28, 0.2 * (_noise(jnp.floor(brick), course, face) - 0.5))
    return (1 + near * grain) * jnp.asarray([0.62, 0.5, 0.54, 0.67], jnp.float32)[face]


def _noise(*keys: Array) -> Array:
    """A number in [0, 1) that looks random, the same for the same whole numbers."""
    mixed = jnp.uint32(2166136261)
    for key in keys:
        mixed = (mixed ^ key.astype(jnp.int32).astype(jnp.uint32)) * jnp.uint32(2654435761)
        mixed = mixed ^ (mixed >> jnp.uint32(15))
    return (mixed & jnp.uint32(1023)).astype(jnp.float32) / 1024


def _checks(seen: Surface) -> Array:
    """The lightness of the floor, one tile a cell."""
    return 0.72 + 0.07 * (jnp.floor(seen.point + _NUDGE).sum(-1) % 2)


def _sky(seen: Surface, camera: Camera) -> Array:
    east = (1 + seen.directions[:, 1:] / jnp.linalg.norm(seen.directions, axis=1, keepdims=True)) / 2
    up = jnp.clip(-2 * camera.focal_length / camera.size * camera.offsets(), 0, 1)[:, None, None]
    horizon = jnp.asarray([196, 217, 236], jnp.float32) + east**2 * jnp.asarray([55, 5, -70], jnp.float32)
    return (1 - up) * horizon + up * jnp.asarray([72, 128, 196], jnp.float32)


def _haze(depth: Array) -> Array:
    """Things grow darker with distance."""
    return 0.65 + 0.35 / (1 + (depth / 5) ** 2)


def layer(scene: Scene, state, facing, site) -> Array:
    """A whole site in one view, (4, size, size) bytes: colour times opacity, then opacity."""
    here = jnp.all(scene.eyes[state] == scene.balls[site])
    image = jnp.where(here, _glow(scene, site), _ball(scene, state, facing, site))
    return _to_planes(image, scene.camera)


def _ball(scene: Scene, state, facing, site) -> Array:
    """A ball on the floor and its shadow, where no wall is in front of them."""
    seen, (forward, right) = surfaces(scene, state, facing), _axes(facing)
    x, y = jnp.meshgrid(scene.camera.offsets(), scene.camera.offsets())
    rays = jnp.stack([x, jnp.ones_like(x), -y], -1)
    away = scene.balls[site] - scene.eyes[state]
    centre = jnp.stack([away @ right, away @ forward, jnp.float32(BALL_RADIUS - EYE_HEIGHT)])
    # The nearer root of |depth·ray − centre|² = radius².
    a, b, c = (rays**2).sum(-1), rays @ centre, (centre**2).sum() - BALL_RADIUS**2
    root = b**2 - a * c
    depth = (b - jnp.sqrt(jnp.maximum(root, 0))) / a
    ball = (root > 0) & (depth > 0) & (depth < seen.wall)
    lit = jnp.maximum((depth[..., None] * rays - centre) @ _LIGHT / BALL_RADIUS, 0)[..., None]
    colour = scene.colours[site] * (0.5 + 0.5 * lit) * _haze(depth)[..., None] + 150 * lit**24
    gap = jnp.linalg.norm(seen.point - scene.balls[site], axis=-1)
    shadow = jnp.where(seen.kind == FLOOR, 0.55 * jnp.clip((SHADOW_RADIUS - gap) / BALL_RADIUS, 0, 1), 0)[..., None]
    opaque = jnp.concatenate([jnp.clip(colour, 0, 255), jnp.full_like(lit, 255)], -1)
    return jnp.where(ball[..., None], opaque, jnp.concatenate([jnp.zeros_like(colour), 255 * shadow], -1))


def _glow(scene: Scene, site) -> Array:
    """The site that the agent stands on: a dome of its colour that rises from the bottom of the frame."""
    across = jnp.linspace(-1, 1, scene.camera.size * scene.camera.samples, dtype=jnp.float32)
    x, y = jnp.meshgrid(across, across)
    dome = jnp.clip(3 * (1 - jnp.hypot(x / 1.25, (y - 1.35) / 1.05)), 0, 0.9)[..., None]
    return jnp.concatenate([dome * scene.colours[site], 255 * dome], -1)


class FirstPerson(eqx.Module):
    """What an agent sees from the centre of its cell, looking the way it last moved.

    `frame(state, facing, fraction)` is a pure function, for `jit` and `vmap`: facing is 0 up, 1 right, 2 down,
    3 left, and fraction (sites,) is what is left of every site, 0 to 1. With `cache=False` it casts its rays anew
    each time, which is much slower and works for maps of any size.
    """

    scene: Scene
    cache: "Cache | None"

    def __init__(self, map: Map, sites, *, size=128, field_of_view=60.0, samples=2, cache=True, cache_limit=2**30):
        sites = check_sites(sites, map.n_states)
        if size < 1 or samples < 1:
            raise ValueError(f"size and samples count pixels and rays, at least 1 each; got {size} and {samples}")
        if not 0 < field_of_view < 180:
            raise ValueError(f"field_of_view is an angle in degrees, between 0 and 180; got {field_of_view}")
        places = jnp.asarray(map.cells + 0.5, jnp.float32)
        camera = Camera(int(size), float(field_of_view), int(samples))
        self.scene = Scene(jnp.asarray(map.free), places, places[sites], site_colours(len(sites)), camera)
        self.cache = _fill(self.scene, cache_limit) if cache else None

    def frame(self, state, facing, fraction) -> Array:
        """The picture, size × size × RGB, as bytes."""
        fraction = jnp.clip(jnp.asarray(fraction, jnp.float32), 0, 1)
        draw = self._cast if self.cache is None else self.cache.blend
        # Colour comes last only here: blending whole planes is twice as fast as pixel by pixel.
        return jnp.moveaxis(to_bytes(draw(state, facing, fraction)), 0, -1)

    def _cast(self, state, facing, fraction: Array) -> Array:
        def draw(image, site):
            return _over(layer(self.scene, state, facing, site), fraction[site], image), None

        image = background(self.scene, state, facing).astype(jnp.float32)
        if not len(self.scene.balls):
            return image
        far_first = jnp.argsort(-jnp.square(self.scene.balls - self.scene.eyes[state]).sum(-1))
        return jax.lax.scan(draw, image, far_first)[0]


class Cache(eqx.Module):
    """All views of a scene. The sites in a view fill its slots from far to near; layer 0 is empty."""

    backgrounds: Array
    layers: Array
    slot_layer: Array
    slot_site: Array

    def blend(self, state, facing, fraction: Array) -> Array:
        view = 4 * state + facing
        image = self.backgrounds[view].astype(jnp.float32)
        for slot in range(self.slot_site.shape[1]):
            site = self.slot_site[view, slot]
            image = _over(self.layers[self.slot_layer[view, slot]], fraction[site], image)
        return image


def _over(picture: Array, fraction: Array, image: Array) -> Array:
    """An image with a layer in front of it that is as opaque as the fraction left."""
    picture = picture.astype(jnp.float32) * fraction
    return image * (1 - picture[3] / 255) + picture[:3]


def _fill(scene: Scene, limit: int) -> Cache:
    n_views, size = 4 * len(scene.eyes), scene.camera.size
    view, site = _in_sight(scene)
    needed = (3 * n_views + 4 * (len(view) + 1)) * size**2
    if needed > limit:
        raise ValueError(
            f"{n_views} views of {size} × {size} pixels and {len(view)} sights of a site need {needed / 2**20:.0f} "
            f"MiB, more than cache_limit = {limit / 2**20:.0f} MiB: take a smaller size, or cache=False"
        )
    views = np.arange(n_views)
    backgrounds = _in_chunks(_backgrounds, scene, views // 4, views % 4)
    layers = (
        _in_chunks(_layers, scene, view // 4, view % 4, site) if len(view) else np.zeros((0, 4, size, size), np.uint8)
    )
    shown = layers[:, 3].any((1, 2))
    view, site = view[shown], site[shown]
    distance = np.linalg.norm(np.asarray(scene.eyes)[view // 4] - np.asarray(scene.balls)[site], axis=1)
    order = np.lexsort((-distance, view))
    rank = np.arange(len(order)) - np.searchsorted(view[order], view[order])
    slots = np.zeros((2, n_views, rank.max(initial=-1) + 1), np.int32)
    slots[:, view[order], rank] = order + 1, site[order]
    layers = np.concatenate([np.zeros((1, 4, size, size), np.uint8), layers[shown]])
    return Cache(*(jnp.asarray(part) for part in (backgrounds, layers, *slots)))


def _in_sight(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (view, site) that may show something: the site's own cell, or a ball that reaches into the picture."""
    away = np.asarray(scene.balls) - np.asarray(scene.eyes)[:, None]
    depth, side = (np.einsum("nkc,fc->nfk", away, MOVES[turned]) for turned in ([0, 1, 2, 3], [1, 2, 3, 0]))
    angle = np.radians(scene.camera.field_of_view) / 2
    outside = np.maximum(np.abs(side) * np.cos(angle) - depth * np.sin(angle), -depth)
    seen = (outside < SHADOW_RADIUS) | ((depth == 0) & (side == 0))
    view, site = np.nonzero(seen.reshape(4 * len(scene.eyes), len(scene.balls)))
    return view, site


def _in_chunks(draw, scene: Scene, *indices: np.ndarray) -> np.ndarray:
    """`draw(scene, …)` for all indices, a few at a time: memory does not grow with the map."""
    n = len(indices[0])
    padded = [np.pad(part, (0, -n % _VIEWS_AT_A_TIME), mode="edge") for part in indices]
    chunks = zip(*(part.reshape(-1, _VIEWS_AT_A_TIME) for part in padded), strict=True)
    return np.concatenate([np.asarray(draw(scene, *chunk)) for chunk in chunks])[:n]


# Kept, so that the next scene of the same shape need not be compiled again.
_backgrounds = eqx.filter_jit(jax.vmap(background, in_axes=(None, 0, 0)))
_layers = eqx.filter_jit(jax.vmap(layer, in_axes=(None, 0, 0, 0)))


def site_colours(n: int) -> Array:
    return jnp.asarray(SITE_COLOURS[np.arange(n) % len(SITE_COLOURS)])
