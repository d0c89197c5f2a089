"""A depletion: the n-th visit is worth (1 + n) to a power."""

import wane


class Bored(wane.Diminishing):
    """Rewards lose interest slowly."""

    power: float

    def worth(self, visits):
        return (1 + visits) ** -self.power
