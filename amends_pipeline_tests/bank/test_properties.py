from __future__ import annotations

import copy

from hypothesis import assume, given
from hypothesis import strategies as st

from amends_pipeline.bank.fold import fold_balance, judge
from amends_pipeline_tests.bank.strategies import exports, queries

SAME_FROM_ANYWHERE = ("balance", "checkpoint", "checkpoint_registry_entry")


@given(st.data())
def test_a_valid_history_is_folded_and_nothing_is_changed(data):
    export = data.draw(exports())
    query = data.draw(queries(export))
    context = export.context()
    before = copy.deepcopy((query, export, context))
    judgement = judge(query, export.groups, export.accounts, context)
    assert judgement.rejection is None
    assert judgement.result["code"] == "BALANCE_FOLDED"
    assert (query, export, context) == before
    assert judge(query, export.groups, export.accounts, context) == judgement


@given(st.data())
def test_genesis_equals_every_registered_checkpoint(data):
    export = data.draw(exports(max_groups=6))
    query = data.draw(queries(export))
    whole = fold_balance(query, export.groups, export.accounts, export.context())
    visible = len(whole["trace"])
    for split in range(visible + 1):
        early = export.prefix(split)
        earlier = {**query, "knowledge_cutoff": early.head["observed_at"]}
        entry = fold_balance(earlier, early.groups, early.accounts, early.context())[
            "checkpoint_registry_entry"
        ]
        assert len(entry["prefix_groups"]) == split
        resumed = fold_balance(
            {**query, "checkpoint": entry["checkpoint"]},
            export.groups[split:],
            export.accounts,
            export.context(entry),
        )
        for name in SAME_FROM_ANYWHERE:
            assert resumed[name] == whole[name]
        assert resumed["trace"] == whole["trace"][split:]
        assert resumed["coverage"] == {
            **whole["coverage"],
            "checkpoint_id": entry["checkpoint"]["checkpoint_id"],
        }


@given(st.data())
def test_a_checkpoint_beyond_what_was_known_is_refused(data):
    export = data.draw(exports())
    query = data.draw(queries(export))
    whole = fold_balance(query, export.groups, export.accounts, export.context())
    visible = len(whole["trace"])
    for split in range(visible + 1, len(export.groups) + 1):
        early = export.prefix(split)
        earlier = {**query, "knowledge_cutoff": early.head["observed_at"]}
        entry = fold_balance(earlier, early.groups, early.accounts, early.context())[
            "checkpoint_registry_entry"
        ]
        resumed = fold_balance(
            {**query, "checkpoint": entry["checkpoint"]},
            export.groups[split:],
            export.accounts,
            export.context(entry),
        )
        assert resumed["code"] == "CHECKPOINT_AFTER_KNOWLEDGE"


@given(st.data())
def test_an_answer_at_a_knowledge_cutoff_never_changes_when_groups_are_added(data):
    export = data.draw(exports())
    count = data.draw(st.integers(0, len(export.groups)))
    early = export.prefix(count)
    query = data.draw(queries(early))
    # Only where later receipts lie after the cutoff was the early answer complete.
    assume(all(g["available_at"] > query["knowledge_cutoff"] for g in export.groups[count:]))
    then = fold_balance(query, early.groups, early.accounts, early.context())
    now = fold_balance(query, export.groups, export.accounts, export.context())
    assert now["balance"] == then["balance"]
    assert now["trace"] == then["trace"]
    provenance = {"provenance_ref": export.head["receipt_ref"]}
    assert now["checkpoint"] == {**then["checkpoint"], **provenance}


@given(st.data())
def test_missing_repeated_exchanged_and_cut_groups_are_refused(data):
    export = data.draw(exports().filter(lambda drawn: len(drawn.groups) > 1))
    query = data.draw(queries(export))
    groups, last = export.groups, len(export.groups) - 1
    at = data.draw(st.integers(0, last))
    other = data.draw(st.integers(0, last).filter(lambda other: other != at))
    low, high = sorted((at, other))

    def code(changed):
        return fold_balance(query, changed, export.accounts, export.context())["code"]

    missing = "INCOMPLETE_EXPORT" if at == last else "SEQUENCE_GAP"
    assert code(groups[:at] + groups[at + 1 :]) == missing
    assert code(groups[:at]) == "INCOMPLETE_EXPORT"
    assert code([*groups[: high + 1], groups[low], *groups[high + 1 :]]) == "DUPLICATE_GROUP"
    exchanged = list(groups)
    exchanged[low], exchanged[high] = exchanged[high], exchanged[low]
    assert code(exchanged) == "SEQUENCE_GAP"
    renamed = {**groups[low], "group_id": "another"}
    assert code([*groups[: high + 1], renamed, *groups[high + 1 :]]) == "OUT_OF_ORDER_GROUP"
    altered = {**groups[low], "available_at": "9999-12-31T23:59:59.998Z"}
    assert code([*groups[: high + 1], altered, *groups[high + 1 :]]) == "GROUP_ID_CONFLICT"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_no_json_value_in_any_place_escapes_as_an_exception(data):
    export = data.draw(exports(max_groups=3))
    query = data.draw(queries(export))
    parts = {
        "query": query,
        "groups": copy.deepcopy(export.groups),
        "accounts": copy.deepcopy(export.accounts),
        "context": export.context(),
    }
    inside = parts
    name = data.draw(st.sampled_from(sorted(parts)))
    while isinstance(inside[name], dict | list) and inside[name] and data.draw(st.booleans()):
        inside = inside[name]
        names = sorted(inside) if isinstance(inside, dict) else range(len(inside))
        name = data.draw(st.sampled_from(names))
    inside[name] = data.draw(json_values)
    result = fold_balance(**parts)
    assert set(result) == {
        "status",
        "code",
        "balance",
        "coverage",
        "trace",
        "checkpoint",
        "checkpoint_registry_entry",
    }
    assert (result["status"] == "ok") is (result["balance"] is not None)
