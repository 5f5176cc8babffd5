"""One run of the whole trace per trial: always right, and the measure of every shortcut."""

from holdfast.assess.golden import Golden, section_parts
from holdfast.assess.inject import Strike, injected
from holdfast.assess.outcome import Outcome, difference
from holdfast.assess.setting import Setting
from holdfast.execute.call import running


def run_slow(setting: Setting, strike: Strike, golden: Golden) -> Outcome:
    """The outcome of one trial, told from the golden run of the same seed."""
    graph = injected(setting.jittered(golden.seed), [strike])
    with running(setting.graph, "a trial"):
        faulty = section_parts(setting, setting.output(graph))
    return difference(faulty, golden.parts)
