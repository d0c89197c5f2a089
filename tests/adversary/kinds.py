"""All fuzzers by kind."""

from adversary import chains, dates, folders, kills, maps, words
from adversary.frame import Fuzzer

KINDS: dict[str, Fuzzer] = {
    fuzzer.kind: fuzzer for module in (chains, maps, folders, words, dates, kills) for fuzzer in module.FUZZERS
}
