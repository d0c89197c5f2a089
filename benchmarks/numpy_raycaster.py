"""A plain NumPy ray-caster: the peer of `FirstPersonView.frame` in `benchmarks/worlds.py`.

It is what one would write without a cache: one frame per call, a grid traversal (DDA) that steps all columns at once,
then floor, walls, sky and balls as whole-frame arrays. It draws the same scene with the same camera, but it does less
work: it casts one ray per pixel where ours casts four, and mixes the colours of places linearly.
"""

import numpy as np

from wane.worlds.colours import SITE_COLOURS
from wane.worlds.grid import MOVES, Map
from wane.worlds.pixels import BALL_RADIUS, EYE_HEIGHT

CORNERS = np.array([[(80, 110, 40), (70, 150, 190)], [(140, 75, 40), (160, 110, 190)]], np.float32)


def traverse(free: np.ndarray, eye: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the depth of the wall that each ray meets and the axis across its face, one grid line at a time."""
    cell = np.tile(np.floor(eye).astype(int), (len(rays), 1))
    step = np.where(rays > 0, 1, -1)
    per_line = 1 / np.maximum(np.abs(rays), 1e-9)
    ahead = np.where(rays > 0, cell + 1 - eye, eye - cell) * per_line
    depth, axis = np.zeros(len(rays), np.float32), np.zeros(len(rays), int)
    moving = np.arange(len(rays))
    while len(moving):
        a = ahead[moving].argmin(1)
        depth[moving], axis[moving] = ahead[moving, a], a
        cell[moving, a] += step[moving, a]
        ahead[moving, a] += per_line[moving, a]
        moving = moving[free[cell[moving, 0], cell[moving, 1]]]
    return depth, axis


def place_colour(place: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Returns a mixture of the four corners' colours."""
    down, right = np.clip(place[..., 0] / shape[0], 0, 1), np.clip(place[..., 1] / shape[1], 0, 1)
    top, bottom = (a + right[..., None] * (b - a) for a, b in CORNERS)
    return top + down[..., None] * (bottom - top)


def cast_frame(
    map: Map, sites: np.ndarray, state: int, facing: int, fraction: np.ndarray, size=128, fov=60.0
) -> np.ndarray:
    """Returns one picture, size × size × RGB, as bytes."""
    focal = size / 2 / np.tan(np.radians(fov) / 2)
    x = y = ((np.arange(size) + 0.5 - size / 2) / focal).astype(np.float32)
    eye, forward, right = map.cells[state] + np.float32(0.5), MOVES[facing], MOVES[(facing + 1) % 4]
    rays = (forward + x[:, None] * right).astype(np.float32)
    wall, axis = traverse(map.free, eye, rays)
    height = EYE_HEIGHT - y[:, None] * wall
    is_floor, is_sky = height < 0, height > 1
    depth = np.where(is_floor, (EYE_HEIGHT / np.maximum(y, 1e-6))[:, None], wall)
    point = eye + depth[..., None] * rays
    along = np.where(axis == 0, point[..., 1], point[..., 0])
    course = np.floor(6 * height)
    mortar = ((6 * height) % 1 < 0.14) | ((2 * along + 0.5 * (course % 2)) % 1 < 0.05)
    brick = np.where(mortar, 0.7, 1) * np.where(axis == 0, 0.9, 1.1)
    check = 1.3 + 0.12 * (np.floor(point).sum(-1) % 2)
    light = np.where(is_floor, check, brick) * (0.65 + 0.35 / (1 + (depth / 5) ** 2))
    image = place_colour(point, map.shape) * light[..., None]
    up = np.clip(-y / y[-1], 0, 1)[:, None, None]
    sky = (1 - up) * np.array([220, 220, 210], np.float32) + up * np.array([72, 128, 196], np.float32)
    image = np.where(is_sky[..., None], sky, image)
    return draw_sites(image, map, sites, fraction, (eye, forward, right), x, wall)


def draw_sites(image, map: Map, sites, fraction, camera, x, wall) -> np.ndarray:
    """Draws the sites as balls over the image, far to near. The opacity is the fraction of the reward that remains."""
    eye, forward, right = camera
    size = len(x)
    away = map.cells[sites] + 0.5 - eye
    rays = np.stack([*np.meshgrid(x, x)[:1], np.ones((size, size), np.float32), -np.meshgrid(x, x)[1]], -1)
    for i in np.argsort(-(away**2).sum(1)):
        colour = SITE_COLOURS[i % len(SITE_COLOURS)]
        if not away[i].any():
            opacity = 0.9 * fraction[i] * np.clip((np.arange(size) / size - 0.66) * 6, 0, 1)[:, None, None]
            image = image + opacity * (colour - image)
        elif away[i] @ forward > 0:
            centre = np.array([away[i] @ right, away[i] @ forward, BALL_RADIUS - EYE_HEIGHT], np.float32)
            a, b = (rays**2).sum(-1), rays @ centre
            root = b**2 - a * (centre @ centre - BALL_RADIUS**2)
            depth = (b - np.sqrt(np.maximum(root, 0))) / a
            seen = (root > 0) & (depth < wall)
            lit = np.maximum((depth[..., None] * rays - centre) @ np.float32([0.48, -0.36, 0.8]) / BALL_RADIUS, 0)
            opacity = (fraction[i] * seen)[..., None]
            image = image + opacity * (colour * (0.5 + 0.5 * lit[..., None]) - image)
    return np.clip(image, 0, 255).astype(np.uint8)
