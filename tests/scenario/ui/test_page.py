"""The page in a real browser: it opens, lives, strikes, and can be used by everybody."""

import json
import runpy
import subprocess
from pathlib import Path

import pytest

from holdfast.protocol.client import ClientError
from holdfast.trial.process_cluster import HOLDFAST, ProcessCluster

WRITE_RUN = runpy.run_path(str(Path(__file__).parents[2] / "unit" / "ui" / "conftest.py"))["write_run"]


def shown(page) -> None:
    """Wait until the job's tasks are there and move."""
    page.locator("#tasks [role=option]").first.wait_for()
    page.locator("#tasks [role=option][data-state=running]").first.wait_for()


def text_of(page, selector: str, holds: str) -> None:
    page.locator(selector, has_text=holds).first.wait_for()


def at(address: tuple[str, str], **more: object) -> str:
    return f"{address[0]}/ui/#token={address[1]}" + "".join(f"&{name}={value}" for name, value in more.items())


def test_a_token_is_needed_and_a_wrong_one_is_told(visit, address):
    url, token = address
    with visit(f"{url}/", forgiven="401") as page:
        page.locator("#token-dialog[open]").wait_for()
        assert page.url.startswith(f"{url}/ui/")
        assert page.evaluate("() => fetch('/v1/feed').then((answer) => answer.status)") == 401
        page.fill("#token", "guessed")
        page.press("#token", "Enter")
        text_of(page, "#token-error", "is not this orchestrator's user token")
        page.fill("#token", token)
        page.press("#token", "Enter")
        shown(page)
        assert page.locator("#token-dialog[open]").count() == 0


def test_the_token_leaves_the_address_and_stays_in_the_tab(visit, address):
    with visit(at(address)) as page:
        shown(page)
        assert address[1] not in page.url
        page.reload()
        shown(page)
        assert page.evaluate("() => localStorage.length") == 0


def test_a_killed_pe_is_seen_and_seen_to_come_back_without_reloading(visit, cluster, address):
    with visit(at(address)) as page:
        shown(page)
        page.evaluate("() => { window.same = true }")
        page.wait_for_function("() => holdfast.store.jobs[0].quality === 'exact'")
        before = int(page.locator("#recoveries-big").inner_text().split()[0])
        cluster.client.inject({"fault": "crash-pe", "pe": "bargain_index/0"})
        text_of(page, "#events li", "fault crash-pe bargain_index/0")
        text_of(page, "#events li .bad", "failed: a fault was injected")
        page.locator("#recoveries-note", has_text="last: bargain_index/0 after").wait_for()
        text_of(page, "#link-text", "live")
        shown(page)
        assert int(page.locator("#recoveries-big").inner_text().split()[0]) > before
        epoch = "() => holdfast.store.rows.map((row) => row[2])"
        first = page.evaluate(epoch)
        page.locator(f"#task-0 span:nth-child(3):not(:text-is('{first[0]}'))").wait_for()
        assert page.evaluate("() => window.same") is True


def test_a_fault_is_injected_from_the_page_after_a_confirmation(visit, cluster, address):
    with visit(at(address), forgiven="422") as page:
        shown(page)
        page.keyboard.press("f")
        page.select_option("#fault-kind", "crash-pe")
        whom = page.locator("#fault-replica option", has_text="vwap/0").first.get_attribute("value")
        page.select_option("#fault-replica", whom)
        text_of(page, "#fault-consequences", "No output is lost and no reader waits")
        assert page.locator("#fault-inject").is_disabled()
        started = sum(cluster.starts().values())
        page.check("#fault-confirm")
        page.click("#fault-inject")
        text_of(page, "#toast", "Injected: crash-pe vwap/0")
        text_of(page, "#events li", f"fault crash-pe {whom}")
        cluster.wait_until(lambda: sum(cluster.starts().values()) > started, limit_s=30, what="vwap is started again")
        page.keyboard.press("f")
        page.select_option("#fault-kind", "stall-pe")
        page.check("#fault-confirm")
        page.click("#fault-inject")
        text_of(page, "#fault-error", "a light PE cannot stall")


def test_keys_work_as_soon_as_anything_is_seen(visit, address):
    with visit(at(address)) as page:  # as if everything came before the first lists were due
        page.add_init_script("const wait = requestAnimationFrame; window.requestAnimationFrame = (draw) => wait(() => draw(100))")
        page.reload()
        shown(page)
        page.keyboard.press("f")
        page.locator("#fault-dialog[open]").wait_for()


def test_a_pe_host_that_is_killed_from_the_page_comes_back(visit, cluster, address):
    with visit(at(address)) as page:
        shown(page)
        page.keyboard.press("f")
        page.select_option("#fault-kind", "crash-host")
        page.select_option("#fault-node", "n2")
        page.locator("#fault-consequences .sentences p").first.wait_for()
        page.check("#fault-confirm")
        page.click("#fault-inject")
        text_of(page, "#events li .bad", "the PE host was killed by SIGKILL")
        cluster.wait_until(
            lambda: all(r["state"] == "running" for task in cluster.client.job(1)["tasks"] for r in task["replicas"]), limit_s=60
        )
        page.locator("#replicas-big", has_text="10 of 10 alive").wait_for()


def test_what_a_lost_node_would_do_is_told_and_drawn(visit, cluster, address):
    replicas = {r["key"]: (task["task"], r["node"]) for task in cluster.client.job(1)["tasks"] for r in task["replicas"]}
    alone = [task for task, _ in replicas.values() if sum(task == other for other, _ in replicas.values()) == 1]
    node = next(node for task, node in replicas.values() if task in alone)
    with visit(at(address)) as page:
        shown(page)
        page.locator(".node", has_text=node).get_by_role("button", name="what if").click()
        text_of(page, "#detail h2", f"If {node} were lost now")
        text_of(page, "#detail .sentences .worse", "no other replica is alive, so it stops")
        down = page.evaluate("() => [...holdfast.graph.overlay.down]")
        assert down and set(down) <= set(alone)
        page.keyboard.press("Escape")
        page.locator("#detail").wait_for(state="hidden")


def test_the_keyboard_is_enough(visit, address):
    with visit(at(address), color_scheme="light") as page:
        shown(page)
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("g")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        chosen = page.locator("#detail h2").inner_text()
        assert chosen.endswith("_filter/0")
        text_of(page, "#graph-text", chosen)
        assert page.locator("#tasks [aria-selected=true]").inner_text().startswith(chosen)
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.id") == "detail"
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "kill"
        page.keyboard.press("Enter")
        assert page.locator("#fault-replica").input_value().startswith(f"1:{chosen}.")
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
        page.keyboard.press("?")
        page.locator("#help-dialog[open]").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("vwap")
        page.locator("#tasks [role=option]").nth(1).wait_for(state="detached")
        assert page.locator("#tasks [role=option]").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(visit, address, scheme):
    with visit(at(address), width=360, height=740, color_scheme=scheme, has_touch=True, device_scale_factor=2) as page:
        shown(page)
        assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
        assert page.evaluate("() => document.documentElement.scrollWidth") == 360
        assert page.evaluate("() => holdfast.graph.layout.down") is True
        page.tap("#fault-open")
        page.locator("#fault-dialog[open]").wait_for()  # a tap becomes a click when the browser knows that it is no more
        box = page.locator("#fault-dialog").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360
        heights = (
            "() => [...document.querySelectorAll('.bar button, .bar select')].map((each) => each.getBoundingClientRect().height)"
        )
        assert min(page.evaluate(heights)) >= 38


def test_an_orchestrator_that_dies_is_waited_for_and_shown_again(visit, cluster, address):
    with visit(at(address), forgiven="ERR_") as page:
        shown(page)
        cluster.kill_orchestrator()
        text_of(page, "#link-text", "disconnected, retrying")
        cluster.start_orchestrator()
        text_of(page, "#link-text", "live")
        text_of(page, "#about", "orchestrator of term 2")
        shown(page)


def test_faults_need_the_orchestrators_leave(visit, tmp_path):
    with ProcessCluster(tmp_path) as other:
        other.start_orchestrator()
        other.wait_until(other.client.health, limit_s=60)
        url, token = ((other.folder / name).read_text().strip() for name in ("address", "user.token"))
        with visit(at((url, token))) as page:
            text_of(page, "#graph-empty", "No job is running")
            assert page.locator("#fault-open").get_attribute("title") == "Start the orchestrator with --faults to allow it"
            page.keyboard.press("f")
            assert page.locator("#fault-dialog[open]").count() == 0
        with pytest.raises(ClientError, match="start the orchestrator with --faults to allow it"):
            other.client.inject({"fault": "crash-pe", "pe": "vwap/0"})


def test_a_run_that_is_over_is_played_back_and_sought_in(visit, tmp_path):
    run = WRITE_RUN(tmp_path / "run")
    with subprocess.Popen([*HOLDFAST, "ui", str(run), "--json"], stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            said = "".join(iter(serving.stdout.readline, "}\n")) + "}"
            with visit(json.loads(said)["url"]) as page:
                text_of(page, "#link-text", "playback")
                page.locator("#tasks [role=option]").nth(3).wait_for()
                page.locator("#play[aria-label=Pause]").click()  # what is looked at must not pass by
                page.locator("#play[aria-label=Play]").wait_for()
                page.locator("#seek").evaluate("(slider) => { slider.value = 10; slider.dispatchEvent(new Event('change')) }")
                text_of(page, "#out-quality", "absent")
                page.locator("#seek").evaluate("(slider) => { slider.value = 24; slider.dispatchEvent(new Event('change')) }")
                text_of(page, "#out-quality", "exact")
                text_of(page, "#recoveries-note", "last: index/0 after 2.0 s")
                assert page.locator("#fault-open").is_disabled()
                page.locator("#seek").evaluate("(slider) => { slider.value = 0; slider.dispatchEvent(new Event('change')) }")
                page.locator("#play[aria-label=Play]").click()
                page.locator("#seek").evaluate("(at) => { at.value = at.max; at.dispatchEvent(new Event('change')) }")
                page.wait_for_function("() => holdfast.store.now() >= holdfast.store.hello.past.to_s - 0.5")
                from_s, opens_s = page.evaluate("() => [holdfast.store.hello.past.from_s, holdfast.store.hello.past.opens_s]")
                assert page.evaluate("() => holdfast.charts.range()[0]") == max(from_s, from_s + opens_s - 5)
                page.locator("#play[aria-label=Play]").click()  # it was playing, and is over: once more
                page.wait_for_function("() => holdfast.store.now() < holdfast.store.hello.past.to_s - 1")
                assert page.evaluate("() => holdfast.store.now() - holdfast.store.hello.past.from_s") >= opens_s
        finally:
            serving.terminate()
