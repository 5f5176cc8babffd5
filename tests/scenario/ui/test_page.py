"""The page of a real cluster in a real browser."""

import json
import runpy
import subprocess
from pathlib import Path

import pytest

from holdfast.protocol.client import ClientError
from holdfast.trial.process_cluster import HOLDFAST, ProcessCluster

WRITE_RUN = runpy.run_path(str(Path(__file__).parents[2] / "unit" / "ui" / "conftest.py"))["write_run"]


def wait_for_tasks(page) -> None:
    """Wait until the job's tasks are shown and running."""
    page.locator("#tasks [role=option]").first.wait_for()
    page.locator("#tasks [role=option][data-state=running]").first.wait_for()


def wait_for_text(page, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for()


def page_url(address: tuple[str, str], **more: object) -> str:
    return f"{address[0]}/ui/#token={address[1]}" + "".join(f"&{name}={value}" for name, value in more.items())


def test_page_asks_for_a_token_and_rejects_a_wrong_one(visit, address):
    url, token = address
    with visit(f"{url}/", ignored="401") as page:
        page.locator("#token-dialog[open]").wait_for()
        assert page.url.startswith(f"{url}/ui/")
        assert page.evaluate("() => fetch('/v1/feed').then((answer) => answer.status)") == 401
        page.fill("#token", "guessed")
        page.press("#token", "Enter")
        wait_for_text(page, "#token-error", "is not this orchestrator's user token")
        page.fill("#token", token)
        page.press("#token", "Enter")
        wait_for_tasks(page)
        assert page.locator("#token-dialog[open]").count() == 0


def test_token_is_removed_from_the_address_and_kept_for_the_tab(visit, address):
    with visit(page_url(address)) as page:
        wait_for_tasks(page)
        assert address[1] not in page.url
        page.reload()
        wait_for_tasks(page)
        assert page.evaluate("() => localStorage.length") == 0


def test_page_shows_a_crash_and_its_recovery_without_reload(visit, cluster, address):
    with visit(page_url(address)) as page:
        wait_for_tasks(page)
        page.evaluate("() => { window.same = true }")
        page.wait_for_function("() => holdfast.store.jobs[0].quality === 'exact'")
        before = int(page.locator("#recoveries-big").inner_text().split()[0])
        cluster.client.inject({"fault": "crash-pe", "pe": "bargain_index/0"})
        wait_for_text(page, "#events li", "fault crash-pe bargain_index/0")
        wait_for_text(page, "#events li .bad", "failed: a fault was injected")
        page.locator("#recoveries-note", has_text="last: bargain_index/0 after").wait_for()
        wait_for_text(page, "#link-text", "live")
        wait_for_tasks(page)
        assert int(page.locator("#recoveries-big").inner_text().split()[0]) > before
        epoch = "() => holdfast.store.rows.map((row) => row[2])"
        first = page.evaluate(epoch)
        page.locator(f"#task-0 span:nth-child(3):not(:text-is('{first[0]}'))").wait_for()
        assert page.evaluate("() => window.same") is True


def test_page_injects_a_fault_after_confirmation(visit, cluster, address):
    with visit(page_url(address), ignored="422") as page:
        wait_for_tasks(page)
        page.keyboard.press("f")
        page.select_option("#fault-kind", "crash-pe")
        replica = page.locator("#fault-replica option", has_text="vwap/0").first.get_attribute("value")
        page.select_option("#fault-replica", replica)
        wait_for_text(page, "#fault-consequences", "No output is lost and no reader waits")
        assert page.locator("#fault-inject").is_disabled()
        starts = sum(cluster.starts().values())
        page.check("#fault-confirm")
        page.click("#fault-inject")
        wait_for_text(page, "#toast", "Injected: crash-pe vwap/0")
        wait_for_text(page, "#events li", f"fault crash-pe {replica}")
        cluster.wait_until(lambda: sum(cluster.starts().values()) > starts, limit_s=30, what="vwap is restarted")
        page.keyboard.press("f")
        page.select_option("#fault-kind", "stall-pe")
        page.check("#fault-confirm")
        page.click("#fault-inject")
        wait_for_text(page, "#fault-error", "a light PE cannot stall")


def test_keys_work_before_the_first_lists_are_drawn(visit, address):
    with visit(page_url(address)) as page:  # a constant frame time: the lists never become due
        page.add_init_script("const wait = requestAnimationFrame; window.requestAnimationFrame = (draw) => wait(() => draw(100))")
        page.reload()
        wait_for_tasks(page)
        page.keyboard.press("f")
        page.locator("#fault-dialog[open]").wait_for()


def test_pe_host_recovers_after_the_page_kills_it(visit, cluster, address):
    with visit(page_url(address)) as page:
        wait_for_tasks(page)
        page.keyboard.press("f")
        page.select_option("#fault-kind", "crash-host")
        page.select_option("#fault-node", "n2")
        page.locator("#fault-consequences .sentences p").first.wait_for()
        page.check("#fault-confirm")
        page.click("#fault-inject")
        wait_for_text(page, "#events li .bad", "the PE host was killed by SIGKILL")
        cluster.wait_until(
            lambda: all(r["state"] == "running" for task in cluster.client.job(1)["tasks"] for r in task["replicas"]), limit_s=60
        )
        page.locator("#replicas-big", has_text="10 of 10 alive").wait_for()


def test_consequences_of_a_lost_node_are_shown(visit, cluster, address):
    replicas = {r["key"]: (task["task"], r["node"]) for task in cluster.client.job(1)["tasks"] for r in task["replicas"]}
    unreplicated = [task for task, _ in replicas.values() if sum(task == other for other, _ in replicas.values()) == 1]
    node = next(node for task, node in replicas.values() if task in unreplicated)
    with visit(page_url(address)) as page:
        wait_for_tasks(page)
        page.locator(".node", has_text=node).get_by_role("button", name="what if").click()
        wait_for_text(page, "#detail h2", f"If {node} were lost now")
        wait_for_text(page, "#detail .sentences .worse", "no other replica is alive, so it stops")
        down = page.evaluate("() => [...holdfast.graph.overlay.down]")
        assert down and set(down) <= set(unreplicated)
        page.keyboard.press("Escape")
        page.locator("#detail").wait_for(state="hidden")


def test_page_can_be_used_with_the_keyboard_alone(visit, address):
    with visit(page_url(address), color_scheme="light") as page:
        wait_for_tasks(page)
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.keyboard.press("g")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        selected = page.locator("#detail h2").inner_text()
        assert selected.endswith("_filter/0")
        wait_for_text(page, "#graph-text", selected)
        assert page.locator("#tasks [aria-selected=true]").inner_text().startswith(selected)
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.id") == "detail"
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "kill"
        page.keyboard.press("Enter")
        assert page.locator("#fault-replica").input_value().startswith(f"1:{selected}.")
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
def test_page_fits_a_phone_without_horizontal_scrolling(visit, address, scheme):
    with visit(page_url(address), width=360, height=740, color_scheme=scheme, has_touch=True, device_scale_factor=2) as page:
        wait_for_tasks(page)
        assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
        assert page.evaluate("() => document.documentElement.scrollWidth") == 360
        assert page.evaluate("() => holdfast.graph.layout.down") is True
        page.tap("#fault-open")
        page.locator("#fault-dialog[open]").wait_for()  # the browser turns a tap into a click only after a delay
        box = page.locator("#fault-dialog").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360
        heights = (
            "() => [...document.querySelectorAll('.bar button, .bar select')].map((each) => each.getBoundingClientRect().height)"
        )
        assert min(page.evaluate(heights)) >= 38


def test_page_reconnects_after_an_orchestrator_crash(visit, cluster, address):
    with visit(page_url(address), ignored="ERR_") as page:
        wait_for_tasks(page)
        cluster.kill_orchestrator()
        wait_for_text(page, "#link-text", "disconnected, retrying")
        cluster.start_orchestrator()
        wait_for_text(page, "#link-text", "live")
        wait_for_text(page, "#about", "orchestrator of term 2")
        wait_for_tasks(page)


def test_faults_require_the_option_faults(visit, tmp_path):
    with ProcessCluster(tmp_path) as other:
        other.start_orchestrator()
        other.wait_until(other.client.health, limit_s=60)
        url, token = ((other.folder / name).read_text().strip() for name in ("address", "user.token"))
        with visit(page_url((url, token))) as page:
            wait_for_text(page, "#graph-empty", "No job is running")
            assert page.locator("#fault-open").get_attribute("title") == "Start the orchestrator with --faults to allow it"
            page.keyboard.press("f")
            assert page.locator("#fault-dialog[open]").count() == 0
        with pytest.raises(ClientError, match="start the orchestrator with --faults to allow it"):
            other.client.inject({"fault": "crash-pe", "pe": "vwap/0"})


def test_finished_run_is_played_back_with_seeking(visit, tmp_path):
    run = WRITE_RUN(tmp_path / "run")
    with subprocess.Popen([*HOLDFAST, "ui", str(run), "--json"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            output = "".join(iter(server.stdout.readline, "}\n")) + "}"
            with visit(json.loads(output)["url"]) as page:
                wait_for_text(page, "#link-text", "playback")
                page.locator("#tasks [role=option]").nth(3).wait_for()
                page.locator("#play[aria-label=Pause]").click()  # pause, so that the moment checked below stays
                page.locator("#play[aria-label=Play]").wait_for()
                page.locator("#seek").evaluate("(slider) => { slider.value = 10; slider.dispatchEvent(new Event('change')) }")
                wait_for_text(page, "#out-quality", "absent")
                page.locator("#seek").evaluate("(slider) => { slider.value = 24; slider.dispatchEvent(new Event('change')) }")
                wait_for_text(page, "#out-quality", "exact")
                wait_for_text(page, "#recoveries-note", "last: index/0 after 2.0 s")
                assert page.locator("#fault-open").is_disabled()
                page.locator("#seek").evaluate("(slider) => { slider.value = 0; slider.dispatchEvent(new Event('change')) }")
                page.locator("#play[aria-label=Play]").click()
                page.locator("#seek").evaluate("(at) => { at.value = at.max; at.dispatchEvent(new Event('change')) }")
                page.wait_for_function("() => holdfast.store.now() >= holdfast.store.hello.past.to_s - 0.5")
                from_s, opens_s = page.evaluate("() => [holdfast.store.hello.past.from_s, holdfast.store.hello.past.opens_s]")
                assert page.evaluate("() => holdfast.charts.range()[0]") == max(from_s, from_s + opens_s - 5)
                page.locator("#play[aria-label=Play]").click()  # at the end, the play button starts the run again
                page.wait_for_function("() => holdfast.store.now() < holdfast.store.hello.past.to_s - 1")
                assert page.evaluate("() => holdfast.store.now() - holdfast.store.hello.past.from_s") >= opens_s
        finally:
            server.terminate()
