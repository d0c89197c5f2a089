"""A run that was killed after learning: its checkpoints are finished, and its tables were not written."""

import pandas as pd

from wane.lab import find
from wane.lab.contract import join
from wane.lab.runs import SavingLoop


def assert_nothing_is_learned_again(name, settings, tables, kept, checkpoints):
    """Computes the seeded tables anew from finished checkpoints. The tables and the kept agents must be the same."""
    experiment, reports = find(name), []
    loop = SavingLoop(checkpoints / name, "print", report=lambda *words: reports.append(words))
    again = join({}, [experiment.seeded_tables(settings, experiment.seeds(settings), loop)])
    assert reports
    assert all(done == total for _, done, total, _ in reports)
    assert list(loop.kept) == list(kept)
    for table, found in again.items():
        pd.testing.assert_frame_equal(found, tables[table])
