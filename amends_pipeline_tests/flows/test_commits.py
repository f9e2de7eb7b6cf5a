"""One commit on its way while the next decisions are made; never two, never out of order."""

from __future__ import annotations

from threading import Event

import pytest

from amends_pipeline.flows.commits import Commits
from amends_pipeline.kernel.errors import Fenced

PATIENCE_SECONDS = 30


class Store:
    """Saves what it is told to, as slowly as a test wants it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.saved: list[str] = []
        self.told: list[str] = []
        self.free = Event()
        self.free.set()
        self.refusing: str | None = None

    def save(self, decisions) -> None:
        assert self.begun == self.saved, "two commits on their way"
        self.begun.append(decisions)
        assert self.free.wait(PATIENCE_SECONDS)
        if decisions == self.refusing:
            raise Fenced("unit", expected="epoch 1", found="2")
        self.saved.append(decisions)

    def commits(self) -> Commits:
        return Commits(self.save, self.told.append)


def test_all_are_saved_in_order_and_told_of_when_the_block_ends():
    store = Store()
    with store.commits() as commits:
        for each in "abc":
            commits.add(each, wait=False)
        commits.add("d", wait=True)
        assert store.saved == store.told == list("abcd")
        commits.add("e", wait=False)
    assert store.saved == store.told == list("abcde")


def test_the_caller_goes_on_while_one_is_on_its_way():
    store = Store()
    store.free.clear()
    with store.commits() as commits:
        commits.add("a", wait=False)
        assert (store.saved, store.told) == ([], [])
        store.free.set()
        commits.wait()
        assert (store.saved, store.told) == (["a"], ["a"])


def add_two(store, then) -> None:
    with store.commits() as commits:
        commits.add("a", wait=False)
        commits.add("b", wait=False)
        then(commits)


@pytest.mark.parametrize(
    "then",
    [lambda commits: commits.add("c", wait=False), Commits.wait, lambda _: None],
    ids=["add", "wait", "end"],
)
def test_a_refusal_reaches_the_caller_and_nothing_is_saved_behind_it(then):
    store = Store()
    store.refusing = "b"
    with pytest.raises(Fenced):
        add_two(store, then)
    assert store.saved == store.told == ["a"]


def interrupt(_) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("refusing", "told"), [(None, ["a", "b"]), ("b", ["a"])])
def test_an_error_of_the_caller_stands_and_what_was_on_its_way_is_ended_first(refusing, told):
    store = Store()
    store.refusing = refusing
    with pytest.raises(KeyboardInterrupt):
        add_two(store, interrupt)
    assert store.begun == ["a", "b"]
    assert store.told == told


# ---------------------------------------------------------------- begun before it is decided


class Beginning(Store):
    """It can also begin to save, and waits for what is decided."""

    def begin(self, decided) -> None:
        assert self.begun == self.saved, "two commits on their way"
        self.begun.append("some")
        self.begun[-1] = decided()
        self.saved.append(self.begun[-1])


def test_what_is_begun_is_saved_behind_what_is_on_its_way():
    store = Beginning()
    store.free.clear()
    with store.commits() as commits:
        commits.add("a", wait=False)
        commits.begin(store.begin)
        assert store.begun in ([], ["a"])
        store.free.set()
        commits.finish("b", wait=False)
        assert store.told == ["a"]
        commits.begin(store.begin)
        commits.finish("c", wait=True)
        assert store.saved == store.told == ["a", "b", "c"]
        commits.finish("d", wait=False)  # nothing was begun
    assert store.saved == store.told == ["a", "b", "c", "d"]


def test_what_is_begun_and_abandoned_is_not_saved():
    store = Beginning()
    with store.commits() as commits:
        commits.add("a", wait=False)
        commits.begin(store.begin)
        commits.abandon()
        commits.abandon()
        store.begun = list("a")
        commits.add("b", wait=True)
    assert store.saved == store.told == ["a", "b"]


@pytest.mark.parametrize("ends", [True, False], ids=["finished", "given up"])
def test_nothing_is_saved_of_what_was_begun_behind_a_refusal(ends):
    store = Beginning()
    store.refusing = "a"

    def begun_behind(commits) -> None:
        commits.add("a", wait=False)
        commits.begin(lambda decided: store.saved.append(decided()))
        if ends:
            commits.finish("b", wait=True)

    with pytest.raises(Fenced), store.commits() as commits:
        begun_behind(commits)
    assert store.saved == store.told == []


def test_what_the_begun_one_meets_reaches_the_caller():
    def refusing(decided) -> None:
        assert decided() == "a"
        raise Fenced("unit", expected="epoch 1", found="2")

    def begun_and_finished(commits) -> None:
        commits.begin(refusing)
        commits.finish("a", wait=False)

    store = Store()
    with pytest.raises(Fenced), store.commits() as commits:
        begun_and_finished(commits)
    assert store.told == []


def test_an_interrupted_caller_leaves_nothing_begun():
    store = Beginning()

    def interrupted(commits) -> None:
        commits.begin(store.begin)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), store.commits() as commits:
        interrupted(commits)
    assert store.saved == store.told == []


def test_an_interrupt_just_as_it_begins_leaves_nobody_waiting(monkeypatch):
    store = Beginning()
    in_thread = Commits._in_thread  # noqa: SLF001 - the moment between its steps

    class Interrupted:
        def __init__(self, commits) -> None:
            self._thread = in_thread(commits)

        def submit(self, *work):
            self._thread.submit(*work)
            raise KeyboardInterrupt

    monkeypatch.setattr(Commits, "_in_thread", lambda commits: Interrupted(commits))  # noqa: PLW0108 - a function is bound, a class is not
    with pytest.raises(KeyboardInterrupt), store.commits() as commits:
        commits.begin(store.begin)
    assert store.saved == store.told == []
