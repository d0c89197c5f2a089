"""Any Gymnasium environment as one whose rewards wear off where they are collected.

    >>> import gymnasium
    >>> from wane.depletion import Geometric
    >>> env = Depleting(gymnasium.make("FrozenLake-v1", is_slippery=False), Geometric(0.5), remaining="dict")
    >>> env.reset(seed=0)[0]["remaining"].shape
    (16,)

`Depleting` wraps one environment and `DepletingVector` a vector of them; both pay the same. They have five settings:

- `site(observation, action, info)` names the place that a reward comes from: anything hashable, or None for a reward
  that does not wear off. By default it is the new observation, where that is a single integer.
- `rewards` says which part of a reward wears off. With "positive", the default, costs are left alone. With "all" they
  wear off too. A function (reward, observation, action, info) returns the part that wears off; the rest is paid in
  full.
- `sites` lists the places in order. It is needed for a depletion with a parameter for each site, and to show what
  remains. By default these are all integers of a discrete observation space.
- `remaining` adds to the observation what remains of each of `sites`, as a fraction of its reward: "dict" makes it a
  dictionary with "view" and "remaining", "flat" one vector of floats. By default the observation is unchanged.
- `reset_memory` says whether all sites are fresh in a new episode, as they are by default. With False they remember
  the visits of all episodes, also after `reset`: where an episode pays once, at its goal, this is what makes it pay
  less and less. A new wrapper begins with fresh sites.

A step is no visit if the part of its reward that wears off is 0. The time between two episodes is no step.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

from wane.extras import require

require("gym", "wane.worlds.Depleting")

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from jaxtyping import Float, Shaped

from wane.depletion import Depletion, Memory
from wane.exact.representations import check_depletion, check_parameters
from wane.worlds.spaces import batch_space, flat_space, remaining_space

Site = Callable[[Any, Any, dict[str, Any]], Hashable | None]
Part = Callable[[float, Any, Any, dict[str, Any]], float]
Rewards = Literal["positive", "all"] | Part
Form = Literal["dict", "flat"] | None


class _Rules:
    """The settings of a wrapper, which all copies of an environment share: what wears off, where, and how fast."""

    def __init__(
        self,
        space: spaces.Space,
        depletion: Depletion,
        site: Site | None,
        rewards: Rewards,
        sites: Sequence[Hashable] | None,
        remaining: Form,
        reset_memory: bool,
    ) -> None:
        check_depletion(depletion)
        if site is None and not isinstance(space, spaces.Discrete):
            raise ValueError(
                f"the observations ({space}) are not single integers: say where rewards come from with "
                "site=lambda observation, action, info: …"
            )
        if not callable(rewards) and rewards not in ("positive", "all"):
            raise ValueError(
                f'rewards is "positive", "all" or a function (reward, observation, action, info) that returns the part '
                f"that wears off, got {rewards!r}"
            )
        if remaining not in (None, "dict", "flat"):
            raise ValueError(f'remaining is None, "dict" or "flat", got {remaining!r}')
        if not isinstance(reset_memory, bool):
            raise TypeError(
                f"reset_memory is True (every episode begins with fresh sites) or False, got {reset_memory!r}"
            )
        if all(np.shape(value)[-1] == 1 for value in depletion.per_site().values()):
            depletion = depletion.at_sites(0)  # An array with a single entry is one number for all sites.
        self.depletion, self.rewards, self.remaining, self.view_space = depletion, rewards, remaining, space
        self.reset_memory, self.site = reset_memory, _observed_integer if site is None else site
        self.needs_info = site is not None or callable(rewards)
        self.sites = self._known_sites(site, sites)
        self.numbers = {place: number for number, place in enumerate(self.sites or ())}
        self._depletions: dict[Hashable, Depletion] = {}
        self.waits = type(depletion).wait is not Depletion.wait

    def _known_sites(self, site: Site | None, sites: Sequence[Hashable] | None) -> list[Hashable] | None:
        """Returns the sites in order, or None if they are not known. Raises ValueError if they must be known."""
        if sites is None and site is None and isinstance(self.view_space, spaces.Discrete):
            sites = range(int(self.view_space.start), int(self.view_space.start + self.view_space.n))
        if sites is None and self.remaining is not None:
            raise ValueError("what remains can only be shown for known sites: list them with sites=[…]")
        if sites is None and self.depletion.per_site():
            raise ValueError(
                f"{self.depletion!r} has a parameter for each site: say which site is which with sites=[…], in the "
                "order of the parameters, or give one number for all"
            )
        if sites is None:
            return None
        known = list(sites)
        if len(set(known)) != len(known):
            raise ValueError(f"the sites must all differ, got {known}")
        check_parameters(self.depletion, len(known))
        return known

    def depletion_at(self, place: Hashable) -> Depletion:
        """Returns the depletion of one site. Raises ValueError if there is no parameter for the site."""
        if not self.depletion.per_site():
            return self.depletion
        if place not in self.numbers:
            raise ValueError(
                f"a reward comes from site {place!r}, for which {self.depletion!r} has no parameter: name it in "
                "sites=[…]"
            )
        if place not in self._depletions:
            self._depletions[place] = self.depletion.at_sites(self.numbers[place])
        return self._depletions[place]

    def wearing_part(self, reward: float, observation: Any, action: Any, info: dict[str, Any]) -> float:
        """Returns the part of a reward that wears off."""
        if callable(self.rewards):
            return float(self.rewards(reward, observation, action, info))
        return reward if self.rewards == "all" else max(reward, 0.0)

    def observation_space(self) -> spaces.Space:
        """Returns the space of the observations, with what remains if it is shown."""
        if self.remaining is None:
            return self.view_space
        remaining = remaining_space(np.full(len(self.sites or ()), self.depletion.bound))
        if self.remaining == "flat":
            return flat_space(self.view_space, remaining)
        return spaces.Dict({"view": self.view_space, "remaining": remaining})

    def show(self, observation: Any, remaining: Float[np.ndarray, " sites"]) -> Any:
        """Returns an observation with what remains."""
        if self.remaining == "dict":
            return {"view": observation, "remaining": remaining}
        flat = np.asarray(spaces.flatten(self.view_space, observation))
        return np.concatenate([flat, remaining], dtype=np.float32, casting="unsafe")


def _observed_integer(observation: Any, action: Any, info: dict[str, Any]) -> int:
    """The site of a discrete environment: the state that a step led to."""
    return int(observation)


class _Memories:
    """What the sites of one environment remember, during an episode or during all of them."""

    def __init__(self, rules: _Rules) -> None:
        self.rules, self._time = rules, 0
        self._kept: dict[Hashable, tuple[Memory, int]] = {}

    def begin_episode(self) -> None:
        """Makes all sites fresh, unless they remember all episodes."""
        if self.rules.reset_memory:
            self._time, self._kept = 0, {}

    def pay(
        self, reward: Any, observation: Any, action: Any, info: dict[str, Any]
    ) -> tuple[float, Hashable | None, float]:
        """Takes one step. Returns what it pays, its site or None, and the worth of the site."""
        reward, place, worth = float(reward), self.rules.site(observation, action, info), 1.0
        if place is not None and not isinstance(place, Hashable):
            raise TypeError(
                f"site {place!r} cannot name a place, because it is not hashable: return an int, a str or a tuple"
            )
        part = 0.0 if place is None else self.rules.wearing_part(reward, observation, action, info)
        visited = None
        if part != 0:
            depletion, memory = self.rules.depletion_at(place), self._memory(place)
            worth, visited = float(depletion.worth(memory)), depletion.visit(memory)
        self._time += 1
        if visited is not None:
            self._kept[place] = visited, self._time
        return reward - part + part * worth, place, worth

    def _memory(self, place: Hashable) -> Memory:
        """Returns the present memory of a site. The steps that the site has waited are applied only here."""
        depletion = self.rules.depletion_at(place)
        memory, since = self._kept.get(place) or (depletion.initial(), 0)
        if self.rules.waits:
            for _ in range(self._time - since):
                memory = depletion.wait(memory)
            self._kept[place] = memory, self._time
        return memory

    def remaining(self) -> Float[np.ndarray, " sites"]:
        """Returns what remains of each known site, as a fraction of its reward."""
        rules = self.rules
        worths = [float(rules.depletion_at(place).worth(self._memory(place))) for place in rules.sites or ()]
        return np.array(worths, np.float32)


class Depleting(gymnasium.Wrapper, RecordConstructorArgs):
    """An environment whose rewards wear off where they are collected. `wane.worlds.depleting` explains the settings.

    `info` holds the "site" that was visited, if there was one, and the "worth" that its reward was multiplied by.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        depletion: Depletion,
        site: Site | None = None,
        *,
        rewards: Rewards = "positive",
        sites: Sequence[Hashable] | None = None,
        remaining: Form = None,
        reset_memory: bool = True,
    ) -> None:
        given: dict[str, Any] = {
            "depletion": depletion,
            "site": site,
            "rewards": rewards,
            "sites": sites,
            "remaining": remaining,
            "reset_memory": reset_memory,
        }
        RecordConstructorArgs.__init__(self, **given)
        gymnasium.Wrapper.__init__(self, env)
        self._rules = _Rules(env.observation_space, **given)
        self._memories = _Memories(self._rules)
        if remaining is not None:
            self.observation_space = self._rules.observation_space()

    @property
    def depletion(self) -> Depletion:
        """How rewards wear off."""
        return self._rules.depletion

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode. All sites are fresh, unless they remember all episodes."""
        self._memories.begin_episode()
        observation, info = self.env.reset(seed=seed, options=options)
        return self._show(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one step of the environment and pays what remains of its reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        paid, place, worth = self._memories.pay(reward, observation, action, info)
        # A copy without a site has no such entry: Gymnasium cannot batch integers with None.
        info = {name: value for name, value in info.items() if name != "site"} | {"worth": worth}
        if place is not None:
            info["site"] = place
        return self._show(observation), paid, terminated, truncated, info

    def _show(self, observation: Any) -> Any:
        if self._rules.remaining is None:
            return observation
        return self._rules.show(observation, self._memories.remaining())


class DepletingVector(VectorWrapper):
    """A vector of environments whose rewards wear off: each copy pays what `Depleting` would pay.

    `site` and `rewards` receive the observation, the action and the info of one copy. Copies may begin anew in the next
    step or in the same one, or only when `reset` is called (Gymnasium's autoreset modes).
    """

    def __init__(
        self,
        env: VectorEnv,
        depletion: Depletion,
        site: Site | None = None,
        *,
        rewards: Rewards = "positive",
        sites: Sequence[Hashable] | None = None,
        remaining: Form = None,
        reset_memory: bool = True,
    ) -> None:
        super().__init__(env)
        self._rules = _Rules(env.single_observation_space, depletion, site, rewards, sites, remaining, reset_memory)
        self._memories = [_Memories(self._rules) for _ in range(env.num_envs)]
        self._mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._ended = np.zeros(env.num_envs, bool)
        if remaining is not None:
            self.single_observation_space = self._rules.observation_space()
            self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in every copy, or in those of `options["reset_mask"]`, as `Depleting` does."""
        mask = np.copy((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        observation, info = self.env.reset(seed=seed, options=options)
        for i in np.flatnonzero(mask):
            self._memories[i].begin_episode()
        self._ended = self._ended & ~mask
        return self._show(observation), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Takes one step of every copy and pays what remains of their rewards."""
        observation, reward, terminated, truncated, given = self.env.step(actions)
        reward, done = np.array(reward, float), terminated | truncated
        final_given = given.get("final_info", {})
        info, final_info = ({**each, **_no_visits(self.num_envs)} for each in (given, final_given))
        views = list(iterate(self.env.observation_space, observation))
        for i, (action, memories) in enumerate(zip(iterate(self.action_space, actions), self._memories, strict=True)):
            if self._ended[i]:  # This copy did not step: it began anew.
                memories.begin_episode()
            elif self._mode == AutoresetMode.SAME_STEP and done[i]:  # It stepped to its last view, and began anew.
                view = given["final_obs"][i]
                reward[i] = self._pay(i, (reward[i], view, action, final_given), final_info)
                info["final_obs"][i], info["final_info"] = self._shown(view, memories), final_info
                memories.begin_episode()
            else:
                reward[i] = self._pay(i, (reward[i], views[i], action, given), info)
        self._ended = done & (self._mode == AutoresetMode.NEXT_STEP)
        return self._show(observation), reward, terminated, truncated, info

    def _pay(self, i: int, step: tuple[Any, Any, Any, dict[str, Any]], info: dict[str, Any]) -> float:
        """Returns what a step (reward, view, action, info) of copy i pays. Writes site and worth into `info`."""
        reward, view, action, given = step
        own_info = _info_of_copy(given, i) if self._rules.needs_info else {}
        paid, place, worth = self._memories[i].pay(reward, view, action, own_info)
        info["worth"][i], info["_worth"][i] = worth, True
        info["site"][i], info["_site"][i] = place, place is not None
        return paid

    def _shown(self, view: Any, memories: _Memories) -> Any:
        return view if self._rules.remaining is None else self._rules.show(view, memories.remaining())

    def _show(self, observation: Any) -> Any:
        """Returns the observation of all copies, with what remains if it is shown."""
        if self._rules.remaining is None:
            return observation
        views = iterate(self.env.observation_space, observation)
        shown = [self._shown(view, memories) for view, memories in zip(views, self._memories, strict=True)]
        empty = create_empty_array(self.single_observation_space, len(shown))
        return concatenate(self.single_observation_space, shown, empty)


def _no_visits(copies: int) -> dict[str, Shaped[np.ndarray, " copies"]]:
    """Returns the entries of `info` before anything was visited. As in Gymnasium, masks have names with "_"."""
    masks = {"_worth": np.zeros(copies, bool), "_site": np.zeros(copies, bool)}
    return {"worth": np.ones(copies), "site": np.full(copies, None, object)} | masks


def _info_of_copy(info: dict[str, Any], i: int) -> dict[str, Any]:
    """Returns the info of one copy: the entries that it has, by their masks."""
    names = [name for name in info if not name.startswith("_") and info.get(f"_{name}", {i: True})[i]]
    return {name: _info_of_copy(info[name], i) if isinstance(info[name], dict) else info[name][i] for name in names}
