"""What a worker's rounds add up to: money, tokens and sessions over attempts that go on, fail or begin anew."""

from __future__ import annotations

import pytest

from git_parallel.agents.claim import Claim
from git_parallel.agents.preset import load
from git_parallel.supervisor import rounds
from git_parallel.supervisor.rounds import Usage

CLAUDE, CODEX, OPENCODE = load("claude", {}), load("codex", {}), load("opencode", {})


def claim(outcome: str = "done", **values: object) -> Claim:
    return Claim(outcome, "done" if outcome == "done" else "agent_error", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("preset", "cost", "before", "own"),
    [
        (CLAUDE, 0.03, 0.02, 0.01),
        (CLAUDE, 0.03, None, 0.03),
        (CLAUDE, None, 0.02, None),
        (CLAUDE, 0.02, 0.02, 0.0),
        (CLAUDE, 0.01, 0.02, 0.01),  # counted anew, whatever the preset says
        (OPENCODE, 0.03, 0.02, 0.03),
    ],
)
def test_a_total_over_a_session_is_counted_once(preset, cost, before, own) -> None:
    found = rounds.own(preset, claim(cost=cost), Usage(cost=before))
    assert found.cost == own  # in dollars that people write


def test_tokens_over_a_session_are_counted_once() -> None:
    before = Usage(tokens={"input": 100, "output": 10})
    assert rounds.own(CODEX, claim(tokens={"input": 150, "output": 15}), before).tokens == {"input": 50, "output": 5}
    assert rounds.own(CODEX, claim(tokens={"input": 70, "output": 15}), before).tokens == {"input": 70, "output": 15}
    assert rounds.own(CODEX, claim(), before).tokens is None
    assert rounds.own(CLAUDE, claim(tokens={"input": 150}), before).tokens == {"input": 150}


def event(session: str, cost: float | None, tokens: dict[str, int] | None = None) -> dict[str, object]:
    return {"event": "reported", "session": session, "session_cost": cost, "session_tokens": tokens}


def test_a_failed_attempt_does_not_uncount_what_its_session_had_reported() -> None:
    events = [event("s", 0.5, {"input": 9}), event("other", 7.0), event("s", None), event("s", 0.0, {"input": 0})]
    assert rounds.reported(events, "s") == Usage(0.5, {"input": 9})
    assert rounds.reported(events, "nobody") == Usage()


@pytest.mark.parametrize(
    ("outcome", "named", "known", "stays"),
    [
        ("failed", "new", "old", "old"),
        ("failed", None, "old", "old"),
        ("failed", "new", None, "new"),
        ("done", "new", "old", "new"),  # the program says that it goes on under another name
        ("partial", "new", "old", "new"),
        ("done", None, "old", "old"),
    ],
)
def test_a_failed_resume_names_no_other_conversation(outcome, named, known, stays) -> None:
    assert rounds.session_after(claim(outcome, session=named), known) == stays
