"""The page in a real browser: what people see, hear and press, what hostile names do, how fast a large group is."""

import threading
from collections.abc import Callable, Iterator

import pytest

from colocation.cli.errors import CommandFailed
from colocation.cli.ui.content import Findings
from colocation.cli.ui.server import UiServer

from . import scenes
from .webdriver import Browser, browser

pytestmark = pytest.mark.deep
"""Needs Chromium, which `make test` does not install; server and content are proven without it."""

DOWN, RIGHT, END = "\ue015", "\ue014", "\ue010"
MOST_FRAME_MS = 500
"""For half of the frames, on a machine that does much else."""


class Served:
    """A page whose cluster the test chooses."""

    def __init__(self, tab: Browser) -> None:
        self.tab = tab
        self.findings: Callable[[], Findings] = scenes.stable
        self.server = UiServer(lambda: self.findings())
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def show(self, findings: Findings) -> Browser:
        self.findings = lambda: findings
        self.tab.open("about:blank")
        self.tab.open(self.server.url)
        replicas = "document.querySelectorAll('.matrix .cell').length > 1"
        self.tab.wait(replicas if findings.groups else "document.title === 'No groups'")
        return self.tab

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def served(tab: Browser) -> Iterator[Served]:
    made = Served(tab)
    yield made
    made.close()


def text(tab: Browser, selector: str) -> str:
    return str(tab.run("return document.querySelector(arguments[0]).textContent", selector))


@pytest.mark.parametrize(
    ("findings", "joins", "verdict", "marks"),
    [
        pytest.param(scenes.stable, "do not shuffle", "stable: AllReplicasComplete", {"complete"}, id="stable"),
        pytest.param(
            scenes.unstable, "do not shuffle", "not stable: NodeNotReady", {"complete", "down", "corrupt", "copying"},
            id="unstable",
        ),
        pytest.param(scenes.dead, "shuffle", "not stable: NodeNotReady", {"complete", "down"}, id="dead"),
        pytest.param(
            scenes.moving, "do not shuffle", "stable: AllReplicasComplete", {"complete", "copying", "planned"},
            id="moving",
        ),
        pytest.param(
            scenes.proposing, "do not shuffle", "stable: AllReplicasComplete", {"complete", "proposed"}, id="proposing"
        ),
    ],
)  # fmt: skip
def test_what_is_seen(
    served: Served, findings: Callable[[], Findings], joins: str, verdict: str, marks: set[str]
) -> None:
    """Whether joins shuffle, the verdict in words, and each state of a replica with its mark."""
    tab = served.show(findings())
    assert text(tab, "#group-joins") == f"joins {joins}"
    assert text(tab, "#group-verdict") == verdict
    script = "return [...document.querySelectorAll('.matrix .cell')].map((one) => one.classList[1])"
    assert set(tab.run(script)) == marks


def test_queries_of_the_last_hour_say_whether_they_shuffled(served: Served) -> None:
    """The newest first, each with the verdicts of `explain`."""
    tab = served.show(scenes.stable())
    rows = "[...document.querySelectorAll('#queries tbody tr')]"
    shuffled, colocated = tab.run(f"return {rows}.map((row) => [...row.cells].map((one) => one.textContent))")
    assert shuffled[:2] == ["4 min ago", "shop/report-7f3a-driver"] and shuffled[5] == "yes"
    assert "Session disabled" in shuffled[6] and colocated[5:] == ["no", f"{scenes.JOIN}: colocate: true"]


def test_a_page_without_groups_tells_the_next_step(served: Served) -> None:
    """The commands that make the first group, in the place of empty tables of one."""
    tab = served.show(scenes.empty())
    hidden = "return ['empty', 'group'].map((name) => document.getElementById(name).hidden)"
    assert tab.run(hidden) == [False, True]
    assert "kubectl apply -f" in text(tab, "#empty")


def test_long_names_of_nodes_are_cut_in_the_middle(served: Served) -> None:
    """Clouds' names begin and end alike; the whole name is there for the pointer and for screen readers."""
    tab = served.show(scenes.in_a_cloud())
    names = "[...document.querySelectorAll('.row-name[title]')]"
    shown = tab.run(f"return {names}.map((one) => [one.textContent, one.title])")
    assert len({name for name, _ in shown}) == 5
    assert all(len(name) == 26 and name.startswith("ip-10-0-1-") and name.endswith("internal") for name, _ in shown)
    assert all(full.endswith(".eu-central-1.compute.internal") for _, full in shown)


def test_moves_that_await_approval_are_explained_once(served: Served) -> None:
    """What would move and why, that nothing moves meanwhile, and the command, which works as it stands."""
    tab = served.show(scenes.proposing())
    for part in ("proposes to move 8 replicas, 8.0 GiB (Balancing)", "none of them until somebody approves"):
        assert part in text(tab, "#proposal-text")
    assert text(tab, "#proposal-command").startswith("colocation approve sales -n shop --proposal ")
    assert "AwaitingApproval" not in text(tab, "#group-facts")


def test_the_page_follows_what_happens_and_shows_it_once(served: Served) -> None:
    """A polite live region tells the change of verdict; the matrix shows it without a reload."""
    tab = served.show(scenes.stable())
    assert text(tab, "#news") == ""
    later = scenes.unstable()
    served.findings = lambda: later
    tab.wait("document.getElementById('news').textContent.includes('Group shop/sales is not stable, NodeNotReady')")
    tab.wait("document.querySelectorAll('.matrix .down').length === 10")
    assert tab.run("return document.getElementById('news').getAttribute('aria-live')") == "polite"


def test_a_lost_connection_is_said_and_what_is_known_stays(served: Served) -> None:
    """And the page goes on by itself afterwards."""

    def fail() -> Findings:
        raise CommandFailed("the API server does not answer")

    tab = served.show(scenes.stable())
    served.findings = fail
    tab.wait("document.getElementById('connection').textContent.startsWith('not live: the API server does not answer')")
    assert tab.run("return document.querySelectorAll('.matrix .complete').length") == 48
    served.findings = scenes.stable
    tab.wait("document.getElementById('connection').textContent === 'live'")


def test_a_link_within_the_page_keeps_the_group(served: Served) -> None:
    """The skip link leads to the group that is shown."""
    tab = served.show(scenes.stable())
    tab.run("location.hash = '#shop/returns'")
    tab.wait("document.getElementById('group-name').textContent === 'shop/returns'")
    tab.run("document.querySelector('.skip').click()")
    tab.wait("location.hash === '#group'")
    tab.run("document.getElementById('group-facts').replaceChildren()")
    tab.wait("document.getElementById('group-facts').children.length > 0")
    assert text(tab, "#group-name") == "shop/returns"


def test_the_matrix_by_keyboard_and_screen_reader(served: Served) -> None:
    """A grid with its size, one stop of the tab key, an active cell that has words."""
    tab = served.show(scenes.unstable())
    grid = "document.getElementById('matrix')"
    shape = tab.run(f"return [{grid}.getAttribute('role'), {grid}.ariaRowCount, {grid}.ariaColCount]")
    assert shape == ["grid", "6", "17"]
    tab.press("#matrix", RIGHT * 4)
    active = "document.getElementById(document.getElementById('matrix').getAttribute('aria-activedescendant'))"
    assert tab.run(f"return {active}.ariaLabel") == (
        "node-1, bucket 4: damaged, for 7 min (ReplicaCorrupt: files are damaged)"
    )
    assert text(tab, "#cell") == tab.run(f"return {active}.ariaLabel")
    tab.press("#matrix", DOWN + END)
    assert tab.run(f"return [{active}.ariaLabel, {active}.getAttribute('aria-colindex')]") == [
        "node-2, bucket 15: complete", "17",
    ]  # fmt: skip
    named = "[...document.querySelectorAll('table')].every((one) => one.closest('[aria-label], [aria-labelledby]'))"
    assert tab.run(f"return {named}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(served: Served, theme: str) -> None:
    """Contrast of words against the page: at least 4.5, as WCAG AA wants it."""
    served.tab.developer("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    tab = served.show(scenes.unstable())
    script = """
      const light = (text) => {
        const [r, g, b] = text.match(/[0-9.]+/g).slice(0, 3).map(Number).map((one) => one / 255)
          .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const page = getComputedStyle(document.body).backgroundColor;
      const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      const seen = ["body", ".why", "#connection", ".badge", ".hint", "td.bad", "td.good"];
      const words = seen.map((name) => ratio(light(getComputedStyle(document.querySelector(name)).color), light(page)));
      const marks = [...document.querySelectorAll(".matrix .complete, .matrix .down, .matrix .copying")].map((one) =>
        ratio(light(getComputedStyle(one).color), light(getComputedStyle(one).backgroundColor)));
      return [page, Math.min(...words, ...marks)];"""
    page, contrast = tab.run(script)
    assert page == {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 21, 27)"}[theme]
    assert contrast >= 4.5


def test_hostile_names_are_text(served: Served) -> None:
    """Whatever stands in names, messages and problems: no element, no script, no request comes of it."""
    tab = served.show(scenes.hostile())
    assert scenes.HOSTILE[:20] in text(tab, "#problems")
    assert scenes.HOSTILE[:20] in text(tab, "#events")
    assert tab.run("return document.querySelectorAll('img, iframe, script:not([src])').length") == 0
    assert text(tab, "#tables tbody td") == f"shop/{scenes.HOSTILE[:-7]}\ufffd&amp;\ufffd"
    assert tab.run("return document.title") == "shop/sales: stable"
    asked = "return performance.getEntriesByType('resource').every((one) => one.name.startsWith(location.origin))"
    assert tab.run(asked)


def test_a_large_group_scrolls_smoothly(served: Served) -> None:
    """1,000 nodes, 128 buckets of 7 replicas: few elements, and frames within their time."""
    tab = served.show(scenes.large())
    script = """
      const grid = document.getElementById("matrix");
      const took = [];
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      return (async () => {
        for (let step = 1; step <= 60; step += 1) {
          grid.scrollTop = step * 350;
          grid.scrollLeft = step * 40;
          const began = performance.now();
          await frame();
          took.push(performance.now() - began);
        }
        took.sort((one, other) => one - other);
        return [took[30], took[59], grid.querySelectorAll("*").length];
      })();"""
    median, slowest, elements = tab.run(script)
    print(f"a frame: median {median:.1f} ms, slowest {slowest:.1f} ms, {elements} elements")
    assert elements < 3000
    assert median < MOST_FRAME_MS
