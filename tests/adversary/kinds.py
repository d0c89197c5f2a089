"""All fuzzers by kind."""

from adversary import chains, folders, hostile, kills, maps, words
from adversary.frame import Fuzzer

KINDS: dict[str, Fuzzer] = {
    fuzzer.kind: fuzzer for module in (chains, maps, folders, words, hostile, kills) for fuzzer in module.FUZZERS
}
