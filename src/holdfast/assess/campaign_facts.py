"""The documents in a results folder besides outcomes: facts about the campaign, and golden scores. Checked when they are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.assess.campaign import Campaign
from holdfast.assess.case import outage_name
from holdfast.assess.output_score import parts_of, score_of
from holdfast.errors import HoldfastError


class _Source(BaseModel):
    model_config = ConfigDict(strict=True)
    tuples: int
    average: float
    peak: float
    seqs: int = 1


class Facts(BaseModel):
    """What the report needs besides outcomes: rates, outages in tuples, seqs of offsets, and how trials were run."""

    model_config = ConfigDict(strict=True)
    sections: int
    origin: int = 0
    deterministic: bool
    why_slow: str | None
    apart: dict[str, str] = {}
    """For each case whose trials shared no jobs, the reason, if other cases' trials did."""
    source: _Source
    rates: dict[str, dict[str, float]]
    tuples: dict[str, dict[str, int]]
    firsts: dict[str, int]
    lasts: dict[str, int] = {}
    """The last seq that a fault at each offset affects, if the campaign gives the number of affected source tuples."""
    affected: dict[str, dict[str, list[dict[str, float]]]] | None

    def missing(self, campaign: Campaign) -> list[str]:
        """Return the names of values that the campaign needs and this document lacks."""
        outages = [outage_name(outage_s, pace) for pace in campaign.paces for outage_s in campaign.outages_s]
        names = [f"firsts.{offset}" for offset in campaign.offsets if str(offset) not in self.firsts]
        if campaign.affected is not None:
            names += [f"lasts.{offset}" for offset in campaign.offsets if str(offset) not in self.lasts]
        for case in campaign.cases:
            names += [f"tuples.{case.name}.{o}" for o in outages if o not in self.tuples.get(case.name, {})]
            names += [f"rates.{case.name}"] if case.name not in self.rates else []
            names += [f"affected.{case.name}"] if self.affected is not None and case.name not in self.affected else []
        return names


class GoldenRuns(BaseModel):
    """The score parts of every golden run, per section."""

    model_config = ConfigDict(strict=True)
    runs: list[dict[str, list[float]]]

    def missing(self, campaign: Campaign) -> list[str]:
        parts = parts_of([score_of(campaign.sink, text) for text in campaign.scores])
        lengths = {len(values) for run in self.runs for values in run.values()}
        return [
            *(f"runs.{n}.{part}" for n, run in enumerate(self.runs) for part in parts if part not in run),
            *([] if len(self.runs) in (1, campaign.golden_runs) else [f"{campaign.golden_runs} runs"]),
            *([] if len(lengths) <= 1 else ["runs of one length"]),
        ]


DOCUMENTS: Mapping[str, type[Facts] | type[GoldenRuns]] = {"facts": Facts, "golden": GoldenRuns}


def require_shape(path: Path, document: Mapping[str, Any], campaign: Campaign) -> None:
    """Raise HoldfastError unless a results file has all values that the campaign needs."""
    try:
        missing = [f"it has no {name}" for name in DOCUMENTS[path.stem].model_validate(document).missing(campaign)]
    except ValidationError as error:
        missing = [f"{'.'.join(map(str, each['loc']))}: {each['msg'].lower()}" for each in error.errors()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise HoldfastError(
            f"results file '{path}' is damaged ({'; '.join(missing[:3])}{more}); remove it; the same command then computes it again"
        )
