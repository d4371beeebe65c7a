"""The Health page: coverage, jobs with retry, models, the cache as a plot, the index, what is degraded."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.site import Site, Visits
from tests.processes import StandInModel, wait_until

pytestmark = pytest.mark.slow


def test_coverage_models_and_index_are_shown(site: Site, visit: Visits) -> None:
    site.remember("hanna", "h-1", "I live in Rome.", "I like trains.")
    page = visit(site, "hanna").open("health")
    expect(page.get_by_role("region", name="Status")).to_contain_text("All is well")
    coverage = page.get_by_role("region", name="Coverage")
    expect(coverage).to_contain_text("0 missing")
    counts = site.get("coverage")
    for name, label in (("messages", "Accepted"), ("extracted", "Extracted"), ("indexed", "Indexed")):
        expect(coverage.locator("dl > div", has_text=label).locator("strong")).to_have_text(str(counts[name]))
    expect(page.get_by_role("article", name="default")).to_contain_text("stand-in")
    expect(page.get_by_role("region", name="Index")).to_contain_text(
        re.compile(r"\d+(\.\d)? (bytes|kB|MB) in \d+ files")
    )
    expect(page.get_by_role("region", name="Jobs")).to_contain_text("Nothing waits.")
    url = "https://93.184.216.34/hook"
    # Nothing of this user's is forgotten: nothing is sent.
    made = site.post("webhooks", user_id="hanna", url=url, secret="s", events=["forgotten"])
    webhooks = page.get_by_role("region", name="Webhooks")
    expect(webhooks).to_contain_text(f"{url}hanna: forgottenNothing was to be delivered yet.")
    site.client.delete(f"/api/v1/webhooks/{made['webhook_id']}").raise_for_status()


def test_the_cache_hit_rate_is_a_plot_of_every_answer(site: Site, model: StandInModel, visit: Visits) -> None:
    model.control(caches=True)
    for number in range(4):
        site.post("threads/cached/messages", user_id="plotter", content=f"Message {number}")
    page = visit(site, "plotter").open("health")
    plot = page.get_by_role(
        "img", name=re.compile(r"Plot: \d+ % of [\d,]+ prompt tokens were cached, over the last 4 answers")
    )
    expect(plot).to_be_visible()
    expect(plot.locator("circle")).to_have_count(4)
    told = [each for each in site.get("cache")["answers"] if each["cached_tokens"] is not None]
    points = plot.locator("circle").all()
    heights = [180 - float(point.get_attribute("cy") or 0) for point in points]
    assert rank(heights) == rank([each["cached_tokens"] / each["evaluated_tokens"] for each in told])


def rank(values: list[float]) -> list[int]:
    """The places of the values, the smallest first."""
    return sorted(range(len(values)), key=values.__getitem__)


def test_a_server_that_is_gone_is_not_said_to_be_well(
    tmp_path: Path, model: StandInModel, visit: Visits
) -> None:
    with Site(tmp_path / "home", model) as site:
        page = visit(site, "wes").open("health")
        expect(page.get_by_text("All is well")).to_be_visible()
        site.kill()
        expect(page.get_by_role("alert").first).to_contain_text("The server doesn't answer.")
        expect(page.get_by_text("All is well")).to_have_count(0)


def test_a_job_that_failed_for_good_is_shown_and_retried(site: Site, visit: Visits) -> None:
    site.remember("dora", "doras", "I live in Oslo.")
    site.give_up_a_job("doras")
    page = visit(site, "dora").open("health")
    expect(page.get_by_role("region", name="Status")).to_contain_text("1 job is dead")
    jobs = page.get_by_role("region", name="Jobs").first
    jobs.get_by_role("button", name="Failed").click()
    row = jobs.get_by_role("row", name=re.compile("doras"))
    expect(row).to_contain_text("OSError: told to fail (8 failures)")
    row.get_by_role("button", name=re.compile("^Retry job")).click()
    expect(jobs).to_contain_text("None.")
    wait_until(lambda: not site.get("jobs")["jobs"], "every job done")
    expect(page.get_by_role("region", name="Status")).to_contain_text("All is well")
