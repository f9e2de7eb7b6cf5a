"""What all sensors share: how they decide, what they answer, and that no error is lost."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import dagster as dg

from amends_pipeline.defs.inventory.runs import attempts, unfinished
from amends_pipeline.flows.automation import (
    Decision,
    Landing,
    Request,
    Situation,
    concerns,
    told,
)
from amends_pipeline.flows.bank_follow import Followed
from amends_pipeline.flows.refresh import Derived
from amends_pipeline.kernel.errors import AmendsError
from amends_pipeline.store.server import redact

TICK_SECONDS = 4
"""Each turn of the daemon, which takes one every 5 s; with 5 s here it would miss one now and then.

The UI shows this number.
"""
SLOW_TICK_SECONDS = 9
"""Every second turn: for what nobody waits for as for a correction."""

Looked = dg.SensorResult | dg.SkipReason
Case = TypeVar("Case", Situation, Landing, Derived, Followed)


def clearly(context: dg.SensorEvaluationContext, look_around: Callable[[], Looked]) -> Looked:
    """Say what kept a sensor from looking. The next tick looks again."""
    try:
        return look_around()
    except AmendsError as error:
        return dg.SkipReason(redact(str(error)))
    except Exception as error:  # noqa: BLE001 - a tick's error is shown to people as it is
        context.log.error("%s", redact(traceback.format_exc()))  # noqa: TRY400 - without passwords
        raise dg.Failure(f"{type(error).__name__}: {redact(str(error))}") from None


def decided(
    instance: dg.DagsterInstance,
    cases: Sequence[Case],
    tag: str,
    plan: Callable[[Sequence[Case], int], Sequence[Decision]],
) -> list[Decision]:
    """Decide, then ask Dagster about those alone that a run would be asked for, and decide anew.

    tag: the one that names, on a run, which case it is about.
    """
    now = seconds_now()
    asked = [each for each in plan(cases, now) if isinstance(each, Request)]
    running = unfinished(instance, tag, {each.subject for each in asked})
    places = {each.subject: each.place for each in asked}
    tried = attempts(instance, {each.place for each in asked}, now)

    def informed(case: Case) -> Case:
        place = places.get(case.subject)
        if place is None:
            return case
        return replace(case, running=running.get(case.subject), attempts=tried.get(place))

    return list(plan([informed(each) for each in cases], now))


def answer(
    context: dg.SensorEvaluationContext,
    decisions: Sequence[Decision],
    run_requests: Sequence[dg.RunRequest],
    nothing: str,
    **more: Any,  # noqa: ANN401 - what Dagster's result takes besides
) -> dg.SensorResult:
    """Ask for runs, or say why not; `nothing` is said when there is no reason to tell."""
    reasons = told(concerns(decisions))
    if run_requests:
        if reasons:  # a tick with runs has no skip reason
            context.log.info("%s", reasons)
        return dg.SensorResult(run_requests=run_requests, **more)
    return dg.SensorResult(skip_reason=reasons or nothing, **more)


def seconds_now() -> int:
    """Seconds since 1970."""
    return int(time.time())
