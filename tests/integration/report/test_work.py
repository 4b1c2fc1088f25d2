"""Shares of partitions and work: the chart shows the history."""

from __future__ import annotations

import pytest

from kafka_assignors import WeightedAssignor
from kafka_assignors.core.wire.protocol import decode_subscription, encode_subscription
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.report.report import Report, render_html, told_groups
from kafka_assignors.integration.report.work_view import WorkView, work_views
from tests.support.histories.reconciled import Reconciled
from tests.support.histories.story import Story
from tests.support.wellformed import Wellformed


def shown(story: Story) -> WorkView:
    (view,) = work_views(story.history).values()
    return view


def consuming() -> Story:
    """Two members with two partitions each; the records of a's are 9 of 10."""
    story = Story("range", {"t": 4}).start("a", "b").round()
    for _ in range(4):
        for partition, count in enumerate((5, 4, 1, 0)):
            for _ in range(count):
                offset = story._offsets.get(("t", partition), 0)
                story._offsets["t", partition] = offset + 1
        story.wait(1000).consume()
    return story.drain()


def test_equal_counts_with_unequal_records_are_shown_as_that() -> None:
    view = shown(consuming())

    assert (view.members, view.unit) == (("a", "b"), "records/s")
    assert {tuple(sorted(stretch.of.items())) for stretch in view.partitions if len(stretch.of) == 2} == {
        (("a", 2.0), ("b", 2.0))
    }
    consumed = {m: sum(s.of.get(m, 0) * (s.end_s - s.start_s) for s in view.work) for m in view.members}
    assert consumed == {"a": pytest.approx(36), "b": pytest.approx(4)}
    assert view.after is not None
    assert view.after.partitions == 1.0
    assert view.after.work == pytest.approx(1.8)


class Weighing(Story):
    """Members of ``weighted``; once told, each of them sends these weights."""

    told: tuple[float, ...] = ()

    def _subscription(self, name: str) -> bytes:
        weights = {("t", p): weight for p, weight in enumerate(self.told)}
        sent = decode_subscription(super()._subscription(name))
        user_data = WeightedAssignor(weights=weights).metadata(["t"]).user_data
        return encode_subscription(sent._replace(user_data=user_data))


def test_weights_that_members_send_are_their_work_before_and_after() -> None:
    """Six partitions of which one has as much work as the five others: by counts 3 : 3, by work 1 : 5."""
    story = Weighing("weighted", {"t": 6})
    story.start("a", "b").round().wait(2000)
    story.told = (5.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    story.round().wait(2000).drain()

    view = shown(story)

    assert view.unit == "weights"
    assert view.before is not None
    assert view.after is not None
    assert view.before == (pytest.approx(1.0), pytest.approx(1.4, rel=0.03))  # a weight travels as one byte
    assert view.after == (pytest.approx(5 / 3), pytest.approx(1.0, rel=0.03))
    assert sorted(view.work[-1].of.values()) == [pytest.approx(5.0, rel=0.03)] * 2
    assert sorted(view.partitions[-1].of.values()) == [1.0, 5.0]


def test_damaged_subscriptions_leave_the_consumed_records() -> None:
    story = Weighing("weighted", {"t": 2})
    story.told = (5.0, 1.0)
    story.start("a", "b").round().records(4).consume().drain()
    assert shown(story).unit == "weights"

    story.change("generation_committed", lambda data: data["members"][0].update(subscription="00"))

    assert shown(story).unit == "records/s"


def test_a_member_without_a_partition_counts_in_the_mean() -> None:
    view = shown(Story("range", {"t": 2}).start("a", "b", "c").round().wait(1000).drain())

    assert view.members == ("a", "b")
    assert view.after is not None
    assert view.after.partitions == 1.5


def test_so_does_one_in_a_group_whose_broker_assigns() -> None:
    """KIP-848: three members, two partitions; each target of the broker is a generation."""
    (view,) = work_views(Reconciled(2).join("a", "b", "c").reconcile().rest().wait(1000).drained().history).values()

    assert view.members == ("a", "b")
    assert len(view.generations) == 1
    assert view.after is not None
    assert view.after.partitions == 1.5


def test_no_member_ever_owned_anything_is_no_view() -> None:
    assert work_views(Story("range", {"t": 1}).history) == {}


def test_the_page_has_a_band_for_each_member_and_stretch() -> None:
    history = consuming().history
    verdict = check(history)

    page = render_html(Report("kept", "", verdict.value, (), groups=told_groups(history, verdict)))

    view = work_views(history)["g"]
    bands = sum(bool(value) for stretch in (*view.partitions, *view.work) for value in stretch.of.values())
    assert Wellformed(page).classes["band"] == bands > 8
    assert "1.00 to 1.00" in page
    assert "1.80 to 1.80" in page


def test_work_that_nobody_tells_has_no_ratio() -> None:
    """Of members without a recorder, neither records nor weights are known."""
    history = Story("range", {"t": 4}).start("a", "b").round().wait(1000).round().history

    (group,) = told_groups(history, check(history))

    assert group.work_svg.count("max / mean") == 1, "of the partitions alone"
    assert "unknown: no member told any" in group.work_svg


def test_the_bundled_font_has_every_character_of_the_drawings() -> None:
    """Roboto has Latin-1, but no arrow: where it lacks a glyph, resvg sets the whole text in another font."""
    history = consuming().history

    (group,) = told_groups(history, check(history))

    assert "max / mean" in group.work_svg
    assert (group.svg + group.work_svg).encode("latin-1")
