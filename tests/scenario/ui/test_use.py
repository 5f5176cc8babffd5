"""The page under updates from a scripted server: mouse, keyboard, touch, screen readers, hostile names, bounded memory."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parent / "scripted_server.py"))
build_first_frame, node, row, sample = (SCRIPT[name] for name in ("build_first_frame", "node", "row", "sample"))


@pytest.fixture
def script() -> Iterator:
    server = SCRIPT["ScriptedServer"]()
    server.first_frame = build_first_frame("in", "mean", "out")
    yield server
    server.close()


@pytest.fixture
def opened(visit, script):
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}") as page:
        page.locator("#tasks [role=option]").nth(2).wait_for()
        yield page


def press(page, locator) -> None:
    locator.scroll_into_view_if_needed()
    box = locator.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()


def test_click_survives_an_update_before_its_release(opened, script):
    opened.locator("#task-1").click()
    kill = opened.get_by_role("button", name="Kill mean/0 on n1")
    press(opened, kill)
    script.send(tasks={1: row(77)})
    opened.locator("#detail dd", has_text="77").wait_for()
    opened.mouse.up()
    opened.locator("#fault-dialog[open]").wait_for()
    assert opened.locator("#fault-replica").input_value() == "1:mean/0.0"
    opened.keyboard.press("Escape")
    press(opened, opened.locator(".node .chip", has_text="out/0"))
    script.send(nodes={"changed": [node(cpu=1.25)], "names": ["n1"]})
    opened.locator(".node", has_text="1.25 of 2 cores").wait_for()
    opened.mouse.up()
    opened.locator("#detail h2", has_text="out/0").wait_for()


def test_selection_and_focus_survive_updates(opened, script):
    script.send(tasks={1: row(1, error="no space left on device")})
    opened.locator("#task-1").click()
    opened.locator("#detail .error", has_text="no space left").wait_for()
    opened.evaluate("() => getSelection().selectAllChildren(document.querySelector('#detail .error'))")
    opened.locator("#detail").get_by_role("button", name="Close").focus()
    script.send(tasks={1: row(77, error="no space left on device")})
    opened.locator("#detail dd", has_text="77").wait_for()
    assert opened.evaluate("() => getSelection().toString()") == "no space left on device"
    assert opened.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Close"


def test_selecting_a_task_keeps_the_zoom(opened):
    opened.keyboard.press("g")
    for _ in range(4):
        opened.keyboard.press("+")
    before, width = opened.evaluate("() => [holdfast.graph.view.scale, holdfast.graph.width]")
    opened.locator("#task-2").click()
    opened.wait_for_function(f"() => holdfast.graph.width < {width}")
    assert opened.evaluate("() => holdfast.graph.view.scale") == before
    assert opened.evaluate("() => holdfast.graph.visible(...holdfast.graph.layout.points[2])")
    opened.keyboard.press("0")
    assert opened.evaluate("() => holdfast.graph.fitted")


def test_finger_moves_a_zoomed_graph_and_scrolls_otherwise(visit, script):
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}", width=360, height=740, has_touch=True) as page:
        page.locator("#task-2").wait_for(state="attached")
        page.locator("#graph").scroll_into_view_if_needed()
        fingers = page.context.new_cdp_session(page)
        drawn = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(done), 100)))"

        def drag() -> float:
            """Move a finger down by 40 pixels, and return where the graph was before."""
            page.evaluate(drawn)  # the browser handles touches by what it last drew
            box, before = page.locator("#graph").bounding_box(), page.evaluate("() => holdfast.graph.view.y")
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            fingers.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
            for step in range(1, 5):
                fingers.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x, "y": y + 10 * step}]})
            page.evaluate(drawn)
            fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
            return before

        before = drag()
        assert page.evaluate("() => holdfast.graph.view.y") == before
        page.click("#zoom-in")
        page.locator("#graph.zoomed").wait_for()
        assert page.evaluate("() => getComputedStyle(holdfast.graph.canvas).touchAction") == "none"
        before = drag()
        page.wait_for_function("(before) => Math.abs(holdfast.graph.view.y - before - 40) <= 1", arg=before)
        page.click("#zoom-fit")
        page.locator("#graph:not(.zoomed)").wait_for()


def test_hidden_page_disconnects_and_catches_up_later(opened, script):
    hidden = """(now) => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => now });
        document.dispatchEvent(new Event('visibilitychange')) }"""
    opened.clock.install()
    opened.evaluate(hidden, True)
    opened.clock.fast_forward(29_000)
    assert script.connections() == 1
    opened.clock.fast_forward(2_000)
    script.wait_until(lambda: script.connections() == 0)
    script.first_frame = {**build_first_frame("in", "mean", "out"), "tasks": {k: row(9) for k in range(3)}}
    opened.clock.resume()
    opened.evaluate(hidden, False)
    opened.locator("#task-0", has_text="9").wait_for()
    assert script.connections() == 1


@pytest.mark.parametrize("width", [390, 1280])
def test_clicking_a_task_scrolls_to_its_details(visit, script, width):
    seen = """() => { const box = document.getElementById('detail').getBoundingClientRect();
        return box.top >= 0 && box.top < innerHeight - 100 }"""
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}", width=width, height=740, reduced_motion="reduce") as page:
        page.locator("#task-2").click()
        page.wait_for_function(seen)
        assert page.locator("#detail h2").inner_text() == "out/0"


def test_selected_task_survives_a_reconnection(opened, script):
    opened.locator("#task-1").click()
    opened.locator("#detail .sentences").wait_for()
    script.first_frame = {**build_first_frame("in", "mean", "out"), "tasks": {k: row(7) for k in range(3)}}
    script.disconnect()
    opened.locator("#detail dd", has_text="7").first.wait_for()
    assert opened.locator("#detail h2").inner_text() == "mean/0"
    assert opened.locator("#tasks [aria-selected=true]").inner_text().startswith("mean/0")
    opened.keyboard.press("Escape")
    script.first_frame = {**build_first_frame("in", "mean", "out"), "tasks": {k: row(8) for k in range(3)}}
    script.disconnect()
    opened.locator("#task-0", has_text="8").wait_for()
    assert opened.locator("#detail").is_hidden()


def test_overlapping_outages_are_drawn_in_separate_lanes(opened):
    """The extent of an outage includes its text, which is after the bar or, without room there, before it."""
    rows = """(spans) => import('/ui/charts.js').then(({ pack }) =>
        pack(spans.map(([begins, ends]) => ({ begins, ends }))).map(([, row]) => row))"""
    assert opened.evaluate(rows, [[0, 100], [90, 300], [100, 150], [290, 400]]) == [0, 1, 0, 0]
    assert opened.evaluate(rows, [[200, 300], [0, 150], [140, 210]]) == [0, 0, 1]


WORDS = """() => {
  const { fillText } = CanvasRenderingContext2D.prototype;
  window.words = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const wide = this.measureText(text).width;
    const begins = { left: x, center: x - wide / 2, right: x - wide }[this.textAlign];
    if (this.canvas.id === "c-line") window.words.push([text, begins, y, wide]);
    return fillText.call(this, text, x, y);
  };
}"""


def event(number, at_s, kind, text, *, replica=None, state=None):
    data = {"state": state} if state else {}
    return {"number": number, "at_s": at_s, "kind": kind, "text": text, "job": 1, "node": "n1", "replica": replica, "data": data}


@pytest.mark.parametrize("width", [1280, 390])
def test_texts_of_the_timeline_are_complete_and_do_not_overlap(visit, script, width):
    faults = [event(k, 990.0 + k, "fault", f"crash of PE number-{k}") for k in (1, 2, 3)]
    lost = [event(4 + k, 994.0, "replica", "lost", replica=f"1:pe-{k}/0.0", state="lost") for k in range(9)]
    back = [event(13 + k, 995.0 + k / 10, "replica", "running", replica=f"1:pe-{k}/0.0", state="running") for k in range(9)]
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}", width=width) as page:
        page.locator("#task-2").wait_for(state="attached")
        page.locator("#c-line").scroll_into_view_if_needed()
        page.evaluate(WORDS)
        script.send(events=[*faults, *lost, *back])
        page.wait_for_function("() => window.words.some(([text]) => text.includes('more, in the list'))")
        page.evaluate("() => { window.words = []; holdfast.charts.draw(); }")
        words = page.evaluate("() => window.words")
        inside = page.evaluate("() => document.getElementById('c-line').clientWidth")
    texts = [text for text, *_ in words]
    assert {f"crash of PE number-{k}" for k in (1, 2, 3)} <= set(texts)
    shown, hidden = sum(" back after " in text for text in texts), int(next(t for t in texts if "more" in t).split()[1])
    assert shown >= 2 and shown + hidden == 9
    assert all(x >= 0 and x + wide <= inside for _, x, _, wide in words)
    for k, (text, x, y, wide) in enumerate(words):
        for other, start, line, long in words[k + 1 :]:
            assert abs(y - line) >= 10 or x + wide <= start or start + long <= x, f"'{text}' overlaps '{other}'"


def test_reasons_of_a_plan_use_the_full_width_of_a_phone(visit, script):
    reason = {"planned": True, "why": ["losing it costs more than losing any other"], "quality_without": 0.5}
    script.first_frame["picture"]["tasks"][1]["reason"] = reason
    script.first_frame["picture"]["plan"]["quality"] = 0.9
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}", width=390, height=844) as page:
        why = page.locator("#plan td", has_text="losing it costs more")
        why.scroll_into_view_if_needed()
        assert why.bounding_box()["width"] > 0.9 * page.locator("#plan").bounding_box()["width"]
        page.locator("#plan td", has_text="0.500").wait_for()


def test_filter_matches_quality_and_node_and_follows_updates(opened, script):
    names = "() => [...document.querySelectorAll('#tasks [role=option] > :first-child')].map((each) => each.textContent)"
    opened.fill("#filter", "absent")
    opened.wait_for_function("() => document.querySelectorAll('#tasks [role=option]').length === 0")
    script.send(tasks={1: row(2, quality="absent", node="n7")})
    opened.locator("#task-1").wait_for()
    assert opened.evaluate(names) == ["mean/0"]
    opened.fill("#filter", "N7")
    assert opened.evaluate(names) == ["mean/0"]
    opened.fill("#filter", "")
    opened.locator("#task-2").wait_for()


def test_figures_of_charts_outside_the_window_are_updated(visit, script):
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}", width=390, height=500) as page:
        page.locator("#v-line", has_text="0 faults, 0 recovered").wait_for(state="attached")
        script.send(samples=[[1001.0, 4.0, 100.0, 90.0, 3.0, "exact", [1, 0, 0, 0], {"n1": 1.5}]], at_s=1001.0)
        page.locator("#v-cpu", has_text="1.50 cores").wait_for(state="attached")
        assert page.locator("#v-rate").inner_text() == "100 → 90 /s"


def test_address_pasted_into_an_open_page_is_used(opened, script):
    opened.evaluate("() => { location.hash = '#token=another&job=1' }")
    opened.wait_for_function("() => !location.hash.includes('token')")
    script.wait_until(lambda: (script.tokens[-1], script.requested_jobs[-1]) == ("another", "1"))
    opened.locator("#tasks [role=option]").nth(2).wait_for()


def test_job_that_ended_during_a_disconnection_is_shown_as_ended(opened, script):
    opened.locator("#job-state", has_text="running").wait_for()
    script.first_frame = {"hello": {**script.first_frame["hello"], "term": 2}, "jobs": [], "at_s": 1010.0}
    script.disconnect()
    opened.locator("#job-state", has_text="ended").wait_for()
    assert opened.locator("#job option:checked").inner_text() == "scripted · job 1"
    opened.locator("#task-1").click()
    opened.locator("#detail", has_text="The job has ended, so nothing would happen.").wait_for()
    assert opened.get_by_role("button", name="Kill mean/0 on n1").is_disabled()
    script.first_frame = build_first_frame("in", "mean", "out")
    script.disconnect()
    opened.locator("#job-state", has_text="running").wait_for()


def test_unknown_job_is_reported_instead_of_the_newest(visit, script):
    script.first_frame = {name: value for name, value in script.first_frame.items() if name not in ("picture", "tasks", "samples")}
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}&job=99") as page:
        page.locator("#graph-empty", has_text="Job 99 is not running").wait_for()
        assert page.locator("#job").input_value() == "99"


def test_jobs_are_listed_with_state_and_output_quality(visit, script):
    script.first_frame = build_first_frame("in", "mean", "out", jobs=(2, 1))
    with visit(f"{script.url}#token={SCRIPT['TOKEN']}") as page:
        page.locator("#jobs .job").nth(1).wait_for()
        assert page.locator("#jobs .job").all_inner_texts()[0].split("\n") == ["job-2", "job 2", "running", "tentative"]
        assert page.locator("#jobs .job[aria-current=true]").inner_text().startswith("job-1")
        page.locator("#jobs .job").first.click()
        page.wait_for_function("() => location.hash === '#job=2'")
        script.first_frame = build_first_frame("in", "mean", "out")
        script.disconnect()
        page.locator("#jobs-card").wait_for(state="hidden")
        assert script.requested_jobs[-1] == "2"


def test_hidden_field_is_not_validated(opened, script):
    opened.keyboard.press("f")
    opened.select_option("#fault-kind", "stall-pe")
    opened.fill("#fault-for", "0")
    opened.select_option("#fault-kind", "crash-pe")
    opened.locator("#fault-consequences", has_text="No running replica").wait_for()
    opened.check("#fault-confirm")
    opened.click("#fault-inject")
    opened.locator("#fault-dialog").wait_for(state="hidden")
    assert script.faults == [{"fault": "crash-pe", "pe": "1:in/0.0", "settings": {}}]


def test_token_dialog_stays_until_a_token_is_accepted(visit, script):
    with visit(f"{script.url}#token=wrong", ignored="401") as page:
        page.locator("#token-error", has_text="that is not the user token").wait_for()
        for _ in range(3):
            page.keyboard.press("Escape")
        page.locator("#token-dialog[open]").wait_for()
        page.fill("#token", "right")
        page.press("#token", "Enter")
        page.locator("#tasks [role=option]").nth(2).wait_for()
        assert page.locator("#token-dialog[open]").count() == 0


def test_page_works_without_browser_storage(chromium, script):
    context = chromium.new_context()
    blocked = "{ get() { throw new DOMException('denied', 'SecurityError') } }"
    for kind in ("localStorage", "sessionStorage"):
        context.add_init_script(f"Object.defineProperty(window, '{kind}', {blocked})")
    page = context.new_page()
    page.goto(f"{script.url}#token={SCRIPT['TOKEN']}")
    page.locator("#tasks [role=option]").nth(2).wait_for()
    page.keyboard.press("t")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    context.close()


def test_arrow_keys_move_through_a_chart(opened, script):
    script.send(samples=[sample(1000.0), [1001.0, 0.1, 100.0, 90.0, 3.0, "exact", [1, 0, 0, 0], {}]], at_s=1001.0)
    opened.locator("#v-latency", has_text="3.0 s").wait_for()
    opened.locator("#c-latency").focus()
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    opened.locator("#time-text", has_text="0.2 s at").wait_for()
    opened.keyboard.press("Tab")
    opened.wait_for_function("() => document.getElementById('v-latency').textContent === '3.0 s'")


def test_screen_reader_announces_changes_but_not_every_figure(opened, script):
    live = "() => [...document.querySelectorAll('output, [aria-live], [role=status], [role=alert]')].map((each) => each.id)"
    assert sorted(opened.evaluate(live)) == [
        "fault-consequences", "fault-error", "graph-text", "link", "out-quality", "time-text", "toast", "token-error",
    ]  # fmt: skip
    script.send(samples=[sample(1001.0, quality="tentative")])
    opened.locator("#out-quality", has_text="tentative").wait_for()
    options = opened.locator("#tasks [role=option]")
    assert [options.nth(1).get_attribute(name) for name in ("aria-posinset", "aria-setsize")] == ["2", "3"]
    assert opened.locator("h1").inner_text() == "holdfast"
    unnamed = """() => [...document.querySelectorAll('button, select, input, canvas')].filter((each) =>
        !(each.textContent.trim() || each.ariaLabel || each.labels?.length)).map((each) => each.outerHTML)"""
    assert opened.evaluate(unnamed) == []


def test_names_and_errors_never_become_markup(opened, script):
    harm = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    shown = build_first_frame("in", "mean", "out", jobs=(1, 2))
    shown["picture"] |= {"application": harm, "name": harm}
    for task in shown["picture"]["tasks"]:
        task |= {"name": f"{harm}/0", "operators": [harm], "reads": [harm], "makes": [harm]}
        task["reason"] = {"planned": True, "why": [harm], "quality_without": 0.1}
    shown["picture"]["plan"] |= {"summary": harm, "quality": 0.5, "next": {"why": harm}}
    for job in shown["jobs"]:
        job |= {"name": harm, "state": harm}
    shown["nodes"] = {"changed": [{**node(harm), "labels": {"rack": harm}}], "names": [harm]}
    shown["tasks"] = {k: row(1, node=harm, error=harm) for k in range(3)}
    shown["events"] = [
        {
            "number": 1,
            "at_s": 1.0,
            "kind": "fault",
            "text": harm,
            "job": 1,
            "node": harm,
            "replica": f"1:{harm}/0.0",
            "data": {},
        }
    ]
    script.first_frame = shown
    script.disconnect()
    opened.locator("#graph-title", has_text="<img").wait_for()
    opened.locator("#task-1").click()
    opened.locator("#detail .error", has_text="<script>").wait_for()
    opened.keyboard.press("f")
    opened.locator("#fault-dialog[open]").wait_for()
    assert (
        opened.evaluate("() => document.querySelectorAll('main img, main script, dialog img, header img:not(.logo)').length") == 0
    )


def test_data_kept_by_the_page_is_bounded(opened, script):
    sizes = """() => [holdfast.store.events.length, holdfast.store.samples.length, holdfast.store.outages.length,
        holdfast.store.faults.length, document.getElementById('events').childElementCount, holdfast.store.newest]"""
    for start in range(1, 4001, 500):
        events = [
            {"number": k, "at_s": 1000.0 + k, "kind": ("fault", "replica", "replica")[k % 3], "text": "failed", "job": 1,
             "node": "n1", "replica": f"1:mean/0.{k // 3 % 3}", "data": {"state": ("", "failed", "running")[k % 3]}}
            for k in range(start, start + 500)
        ]  # fmt: skip
        script.send(events=events, samples=[sample(1000.0 + k) for k in range(start, start + 500)], at_s=1000.0 + start)
    opened.wait_for_function("() => holdfast.store.newest === 4000 && document.getElementById('events').childElementCount === 150")
    assert opened.evaluate(sizes) == [1000, 900, 300, 200, 150, 4000]
