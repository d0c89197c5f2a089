import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wane
from wane.agents.common.policy import sample_action
from wane.agents.common.rollout import Transition
from wane.agents.td import TARGETS, Config, State, Target, init, targets, total_time_target, trace_target, train, update
from wane.worlds import World, make

KEY = jax.random.key(0)
GRID = make("grid-6x6")
SLIPPERY = World(
    "######\n#a..b#\n#.#..#\n######", sites="ab", rewards=[1.0, 2.0], slip=0.3, n_actions=4, discount=0.8, horizon=20
)
SOFT = np.random.default_rng(0).dirichlet(np.ones(4), SLIPPERY.n_states)
DEPLETIONS = [
    wane.Geometric(0.5),
    wane.Geometric([0.0, 1.0]),
    wane.EligibilityTrace(0.5, 0.6),
    wane.EligibilityTrace(0.3, 0.6, equation="representation"),
    wane.TotalTime(0.5, 0.9),
    wane.TotalTime(0.5, 0.9, equation="representation"),
]


def exact(world, policy, depletion, rows, sites=None):
    """The exact tables: Φ, and for an eligibility trace the SR of discount γλ_r."""
    mdp, sites = world.mdp, world.sites if sites is None else sites

    def table(depletion, discount):
        phi = wane.representation(mdp.under(policy), depletion, discount=discount, sites=sites)
        return jnp.asarray(phi.matrix if rows == "state" else phi.action_matrix(mdp))

    phi = table(depletion, world.discount)
    if not isinstance(depletion, wane.EligibilityTrace):
        return State(phi)
    return State(phi, table(wane.Geometric(1.0), world.discount * depletion.regrow))


def test_targets_by_hand():
    """Φ' = [2, 3], in the first site, γ = 0.9."""
    phi_next, visited = jnp.array([2.0, 3.0]), jnp.array([1.0, 0.0])
    found = targets(State(phi_next), visited, wane.Geometric(0.5), 0.9, 1e3).phi
    np.testing.assert_allclose(found, [1 + 0.9 * 0.5 * 2, 0.9 * 3])
    found = targets(State(phi_next), visited, wane.Geometric([0.2, 0.7]), 0.9, 1e3).phi
    np.testing.assert_allclose(found, [1 + 0.9 * 0.2 * 2, 0.9 * 3])

    fading, lost = jnp.array([1.5, 0.5]), (1 - 0.25) * 0.9 * 0.6 * 1.5
    for form, now in (("reward", 1.0), ("representation", 0.25)):
        trace = wane.EligibilityTrace(0.25, 0.6, equation=form)
        np.testing.assert_allclose(trace_target(phi_next, fading, visited, trace, 0.9), [now - lost + 0.9 * 2, 0.9 * 3])
    both = targets(State(phi_next, fading), visited, trace, 0.9, 1e3)
    np.testing.assert_allclose(both.phi, [0.25 - lost + 0.9 * 2, 0.9 * 3])
    np.testing.assert_allclose(both.fading, [1 + 0.9 * 0.6 * 1.5, 0.9 * 0.6 * 0.5])

    for form, q in (("reward", 2.0), ("representation", 0.5)):
        total = wane.TotalTime(0.25, 0.5, equation=form)
        found = total_time_target(phi_next, visited, total, 0.9, 1e3)
        np.testing.assert_allclose(found, [1 + 0.9 * 0.25 * 2, 0.9 * q * 3])
        np.testing.assert_allclose(total_time_target(phi_next, visited, total, 0.9, 1.0), [1, min(0.9 * q * 3, 1)])


@pytest.mark.parametrize(("live", "chance"), [(1.0, 1.0), (1.0, 0.4), (0.0, 1.0)])
def test_one_update_by_hand(live, chance):
    """From a (state 0), right, to state 1, where action 2 follows; and the same for states alone."""
    world = World("#####\n#a.b#\n#####", sites="ab", rewards=[1.0, 2.0], n_actions=4, discount=0.9)
    policy = np.array([[0, chance, 0, 1 - chance], [0, 0, 1.0, 0], [0, 1.0, 0, 0]])
    data, draws = Transition(0, 1, 0.0, 1, False, False, live), jnp.array([0.0, 0.5])
    phi = np.ones((3, 4, 2))
    phi[1, 2] = [2.0, 3.0]
    target = np.array([1 + 0.9 * 0.5 * 2, 0.9 * 3])
    after, error = update(State(jnp.asarray(phi)), data, world, Config(policy=policy), draws)
    np.testing.assert_allclose(error.phi, target - 1)
    phi[0, 1] += 0.1 * live * (target - 1)
    np.testing.assert_allclose(after.phi, phi)
    phi = np.array([[1.0, 1.0], [2.0, 3.0], [0.0, 0.0]])
    # b(right) = (1 − ε) · chance + ε / 4, and the weight chance / b is 1 without exploration.
    epsilon = 0.0 if chance == 1 else 2 / 3
    weight = chance / ((1 - epsilon) * chance + epsilon / 4)
    config = Config(rows="state", policy=policy, epsilon=epsilon)
    after, _ = update(State(jnp.asarray(phi)), data, world, config, draws)
    phi[0] += 0.1 * live * weight * (target - 1)
    np.testing.assert_allclose(after.phi, phi)


@pytest.mark.parametrize("depletion", DEPLETIONS, ids=repr)
@pytest.mark.parametrize("rows", ["state", "state-action"])
def test_the_exact_answer_stays(depletion, rows):
    """Over all transitions of a slippery world, weighted by their chances, the update changes nothing."""
    state = exact(SLIPPERY, SOFT, depletion, rows)
    config = Config(depletion=depletion, rows=rows, policy=SOFT, step_size=1.0, epsilon=0.0)
    moves = np.stack([SLIPPERY.mdp.action(a).toarray() for a in range(4)], axis=1)
    after = moves[..., None] * SOFT
    chances = SOFT[:, :, None, None] * after if rows == "state" else after
    index = np.nonzero(chances)
    cumulative = np.cumsum(SOFT, 1)
    # A uniform number in the middle of an action's share of [0, 1) chooses that action.
    draws = (cumulative - SOFT / 2)[index[2], index[3]]

    @jax.jit
    @jax.vmap
    def changes(s, a, s_next, draw, chance):
        data = Transition(s, a, 0.0, s_next, False, False, 1.0)
        moved, _ = update(state, data, SLIPPERY, config, jnp.array([0.0, draw]))
        return jax.tree_util.tree_map(lambda new, old: chance * (new - old), moved, state)

    for change in jax.tree_util.tree_leaves(changes(*index[:3], draws, chances[index])):
        np.testing.assert_allclose(change.sum(0), 0, atol=1e-12)
        assert float(abs(change).max()) > 1e-3


@pytest.mark.parametrize(
    ("depletion", "rows"),
    [(DEPLETIONS[0], "state"), (DEPLETIONS[0], "state-action"), (DEPLETIONS[2], "state"), (DEPLETIONS[4], "state")],
    ids=repr,
)
def test_where_nothing_is_random_it_gets_there(depletion, rows):
    """On the paper's grid, all columns; a constant step size suffices. Off the policy, with ε = 0.5."""
    config = Config(depletion=depletion, rows=rows, sites="all", epsilon=0.5, episodes=8000)
    state, info = jax.jit(lambda: train(KEY, GRID, config))()
    truth = exact(GRID, GRID.policies[0], depletion, rows, np.arange(16))
    np.testing.assert_allclose(state.phi, truth.phi, atol=1e-3)
    assert info.change[-1] < 1e-3 < info.change[0]
    assert state.phi.shape[-1] == 16


@pytest.mark.parametrize("rows", ["state", "state-action"])
def test_where_much_is_random_it_comes_close(rows):
    """Slips and a random policy, a λ for each site: after 160,000 steps at α = 0.02 eight agents are within 10 % of the
    largest entry, and as nothing pulls them off, their mean is within 3 %.
    """
    config = Config(lam=[0.2, 0.8], rows=rows, policy=SOFT, step_size=0.02, episodes=8000)
    run = jax.jit(jax.vmap(lambda key: train(key, SLIPPERY, config)[0].phi))
    truth = np.asarray(exact(SLIPPERY, SOFT, wane.Geometric([0.2, 0.8]), rows).phi)
    error = np.asarray(run(jax.random.split(KEY, 8))) - truth
    assert abs(error).max() < 0.1 * truth.max()
    assert abs(error.mean(0)).max() < 0.03 * truth.max()


def test_an_infinite_sum_stops_at_the_cap():
    """While away the reward doubles, faster than γ = 0.9 takes it down."""
    depletion = wane.TotalTime(0.5, 0.5)
    uniform = np.full((16, 4), 0.25)
    with pytest.raises(ValueError, match="its value is infinite"):
        exact(GRID, uniform, depletion, "state")
    config = Config(depletion=depletion, policy=uniform, rows="state", cap=50.0, episodes=600)
    state, _ = jax.jit(lambda: train(KEY, GRID, config))()
    assert 40 < float(state.phi.max()) <= 50


def test_the_papers_figure():
    """Q error on the 6 × 6 grid, λ = ½: it vanishes for λ̂ = ½, and ends at 0.2205 for λ̂ = 1 and 0.0484 for λ̂ = 0."""
    truth = exact(GRID, GRID.policies[0], wane.Geometric(0.5), "state-action").phi[..., 0]
    lams = jnp.array([0.0, 0.5, 1.0])

    def errors(lam):
        config = Config(lam=lam, episodes=16_000)
        return train(KEY, GRID, config, measure=lambda state: jnp.mean((state.phi[..., 0] - truth) ** 2))[1].measured

    found = np.asarray(jax.jit(jax.vmap(errors))(lams))
    np.testing.assert_allclose(found[:, -1], [0.0484, 0.0, 0.2205], atol=2e-4)
    assert found[1, 1499] < 0.25 * found[2, 1499]


def test_in_parts_as_at_once_and_columns_alone():
    """In parts, with the columns of a trace and of all states, one site alone gives the same column."""
    config = Config(depletion=wane.EligibilityTrace(0.5, 0.6), sites="all", episodes=40)
    part = jax.jit(lambda state, first: train(KEY, GRID, config, state, first, episodes=20))
    state = part(*part(init(KEY, GRID, config), 0)[:1], 20)[0]
    whole = jax.jit(lambda: train(KEY, GRID, config))()[0]
    for a, b in zip(state, whole, strict=True):
        np.testing.assert_array_equal(a, b)
    few = Config(depletion=config.depletion, sites=[5, 2], episodes=40)
    alone = jax.jit(lambda: train(KEY, GRID, few))()[0]
    np.testing.assert_allclose(alone.phi, whole.phi[..., [5, 2]], atol=1e-14)
    assert float(abs(alone.phi).max()) > 0.1


def test_choices_have_their_chances():
    draws = jnp.linspace(0, 1, 1000, endpoint=False)
    actions = jax.vmap(lambda draw: sample_action(jnp.cumsum(jnp.array([0.2, 0.0, 0.5, 0.3])), draw))(draws)
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / 1000, [0.2, 0.0, 0.5, 0.3], atol=2e-3)
    sure = jax.vmap(lambda draw: sample_action(jnp.cumsum(jnp.array([0.0, 0.0, 1.0, 0.0])), draw))(draws)
    assert np.unique(sure).tolist() == [2]


def test_a_depletion_of_others_gets_a_target(monkeypatch):
    monkeypatch.setitem(
        TARGETS, wane.Hyperbolic, Target(lambda rows, visited, depletion, discount, cap: State(visited))
    )
    config = Config(depletion=wane.Hyperbolic(1.0))
    assert targets(State(jnp.ones(2)), jnp.array([1.0, 0.0]), config.believed, 0.9, 1e3).phi.tolist() == [1.0, 0.0]


def test_refusals():
    with pytest.raises(TypeError, match="no TD target for Hyperbolic"):
        Config(depletion=wane.Hyperbolic(1.0))
    with pytest.raises(ValueError, match='rows = action: "state" or "state-action" is needed'):
        Config(rows="action")
    with pytest.raises(ValueError, match="none with number 3"):
        train(KEY, GRID, Config(policy=3))
    with pytest.raises(ValueError, match="for 1 sites"):
        train(KEY, GRID, Config(lam=[0.5, 0.5]))
    with pytest.raises(ValueError, match="sites are state numbers"):
        train(KEY, GRID, Config(sites="every"))
