"""browser_test.py PAGE_WRITER FOLDER: the pages in a real browser, driven as people drive them.

Leaves screenshots in FOLDER. Status 77: no browser here.
"""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

# The packaged Selenium belongs to the packaged Python, which may not be the first on the path.
PACKAGED = "/usr/bin/python3"
if (importlib.util.find_spec("selenium") is None and os.path.exists(PACKAGED)
        and os.path.realpath(sys.executable) != os.path.realpath(PACKAGED)):
    os.execv(PACKAGED, [PACKAGED, *sys.argv])

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import browser as chromium  # noqa: E402
import colour_sight  # noqa: E402

WRITER, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
PROGRAM = pathlib.Path(__file__).parents[2] / "tools/view/page"
SHARED = {}
# The pixels of the picture as `data`.
PIXELS = """
    const canvas = document.getElementById('lower');
    const copy = document.createElement('canvas');
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext('2d', {willReadFrequently: true});
    context.drawImage(canvas, 0, 0);
    const data = new Uint32Array(context.getImageData(0, 0, copy.width, copy.height).data.buffer);
"""


def setUpModule():
    # The driver first: without Chromium the rest is skipped.
    SHARED["browser"] = chromium.open_browser()
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run([WRITER, str(FOLDER)], check=True)


def tearDownModule():
    SHARED["browser"].quit()


class PageTest(unittest.TestCase):
    def setUp(self):
        self.browser = SHARED["browser"]

    def open(self, name, width=1440, height=900, dark=False):
        chromium.emulate(self.browser, width, height, dark)
        self.browser.get((FOLDER / f"{name}.html").resolve().as_uri())
        chromium.frame(self.browser)
        self.assertTrue(self.script("return document.documentElement.dataset.ready"), name)

    def tearDown(self):
        self.assertEqual(chromium.console_errors(self.browser), [])

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def inside(self, files, expression, *arguments):
        """An expression with the definitions of these files of the page's program."""
        program = "".join((PROGRAM / f"{name}.js").read_text() for name in files)
        return self.script(f"""
            const given = arguments;
            return (function() {{ {program}
              return {expression}; }}).apply(null, given);""", *arguments)

    def shoot(self, name):
        chromium.shoot(self.browser, FOLDER / f"{name}.png")

    def until(self, condition):
        """Waits for a later change; half a minute without the change is a failure."""
        ends = time.time() + 30
        while not condition():
            self.assertLess(time.time(), ends, "it does not come")
            time.sleep(0.05)

    def text(self, id):
        return self.script("return document.getElementById(arguments[0]).innerText", id)

    def colours(self):
        """The colours of the picture, as numbers."""
        chromium.frame(self.browser)
        return self.script(PIXELS + "return [...new Set(data)];")

    def has_colour(self, rgb):
        red, green, blue = rgb
        return (255 << 24) + (blue << 16) + (green << 8) + red in self.colours()

    def pixels(self):
        """The number of colours in the picture, and a sum that changes with the picture."""
        chromium.frame(self.browser)
        return self.script(PIXELS + """
            const colors = new Set();
            let sum = 0;
            for (let i = 0; i < data.length; ++i) {
              colors.add(data[i]);
              sum = (sum * 31 + data[i]) % 4294967291;
            }
            return [colors.size, sum];""")

    def mouse(self, kind, x, y, **more):
        """At a place of the plot, by the browser's own input."""
        box = self.script("""const b = document.getElementById('upper').getBoundingClientRect();
                             return [b.left, b.top];""")
        self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", {
            "type": kind, "x": box[0] + x, "y": box[1] + y, **more})

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        chromium.frame(self.browser)

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.browser.execute_cdp_cmd("Input.dispatchKeyEvent", {
                "type": kind, "key": key, **({"text": key} if len(key) == 1 else {})})
        chromium.frame(self.browser)

    def find(self, action):
        self.script("""const box = document.getElementById('find');
                       box.value = arguments[0];
                       document.getElementById('search').requestSubmit();""", action)
        chromium.frame(self.browser)

    def test_draws_in_both_themes(self):
        seen = set()
        for name in ("small", "zb", "parts", "alone", "sharded", "offloaded", "large"):
            for dark in (False, True):
                self.open(name, dark=dark)
                colors, total = self.pixels()
                self.assertGreater(colors, 30, name)
                seen.add(total)
                self.shoot(f"{name}-{'dark' if dark else 'light'}")
        self.assertEqual(len(seen), 14, "no two pictures are alike")

    def test_colour_blind_readers_tell_kinds_apart(self):
        self.open("small")
        for dark in (False, True):
            paint = self.inside(["paint"], f"makePaint('{'dark' if dark else 'light'}', 1).rgb")
            numbers = self.inside(["data"], "[...Array(UPDATE + 1).keys(), OFFLOAD, FETCH]")
            kinds = [paint[8 * kind:8 * kind + 8] for kind in numbers]
            for sight in colour_sight.SIGHTS:
                self.assertGreater(colour_sight.least_distance(kinds, sight), 12, (sight, dark))

    def test_numbers_of_kinds_are_those_of_the_data(self):
        self.open("small")
        page = (FOLDER / "small.html").read_text()
        heads = json.loads(re.search(r'id="headers">(.*?)</script>', page, re.S)[1])
        names = [name for name, _ in heads[0]["kinds"]]
        numbers = self.inside(["data"],
                              "({UPDATE, SEND_F, RECV_F, SEND_B, RECV_B, D: OFFLOAD, U: FETCH, UNSHARD,"
                              " REDUCE_GRAD})")
        self.assertEqual({names[number]: number for number in numbers.values()}, numbers)
        counts = self.inside(["data", "words", "paint"],
                             "[COMPUTE_KINDS, COMPUTE_NAMES.length, KIND_TONES.length]")
        self.assertEqual(counts, [names.index("SEND_F")] * 3)
        self.assertEqual(self.inside(["paint"], "ACTION_TONES.length"), len(names))
        self.assertEqual(self.inside(["data", "paint"], "CAUSE_TONES.length"),
                         len(heads[0]["causes"]))
        looks = self.inside(["data", "paint"], "CAUSE_TONES.map((tone) => Object.values(tone))")
        self.assertEqual(len({str(look) for look in looks}), len(looks), "every cause has a look")

    def test_copies_have_lanes(self):
        self.open("offloaded")
        legend = self.text("legend")
        for words in ("D copy to the host", "U copy from the host", "idle: copy"):
            self.assertEqual(legend.count(words), 1, legend)
        lanes = self.script("return JSON.parse(document.getElementById('headers').textContent)[0]"
                            ".ranks.map((rank) => rank.lanes.filter(([kind]) => kind === 4))")
        self.assertEqual(lanes, 3 * [[[4, "to host"], [4, "from host"]]] + [[]])
        tones = self.inside(["data", "paint"], "[OFFLOAD, FETCH].map((kind) => "
                            "makePaint('light', 1).rgb[toneAt(kind, 0, 0)])")
        for tone in tones:
            self.assertTrue(self.has_colour(tone), tone)
        self.find("0D3")
        details = self.text("details")
        for part in ("copy what a stage kept of a microbatch to the memory of the host",
                     "moves beside computation, on lane to host", "Needs", "0F3", "Needed by",
                     "0U3"):
            self.assertIn(part, details)
        self.shoot("copies")
        self.find("0B3")
        self.assertRegex(self.text("details"), r"Needs(.|\n)*0U3(.|\n)*Messages")
        self.find("0F2")
        self.assertIn("waited 2 us: 0F2 waits for the end of 0D0, a copy", self.text("details"))
        self.key("l")  # without lanes the copies' colours are not there
        self.key("Escape")
        for tone in tones:
            self.assertFalse(self.has_colour(tone), tone)
        self.find("0U3")
        self.assertIn("from host", self.text("details"))
        # Many in a pixel have a colour between their own and the ground's.
        self.open("crowded")
        ground = self.inside(["paint"], "THEMES.light.band")
        mixed = [self.inside(["paint"], "mix(...arguments, 0.5)", ground, tone) for tone in tones]
        for tone in mixed:
            self.assertTrue(self.has_colour(tone), tone)

    def test_own_copies_have_lanes(self):
        self.open("lent")
        legend = self.text("legend")
        for words in ("EVICT copy from the device", "LOAD copy to the device", "idle: copy"):
            self.assertEqual(legend.count(words), 1, legend)
        self.assertNotIn("copy to the host", legend)
        self.key("l")
        self.find("0EVICT3")
        self.shoot("own_copies")
        for part in ("moves beside computation, on lane copies out", "Needs", "0F3"):
            self.assertIn(part, self.text("details"))
        for kind in ("OFFLOAD", "FETCH"):
            tone = self.inside(["data", "paint"],
                               f"makePaint('light', 1).rgb[toneAt({kind}, 0, 0)]")
            self.assertTrue(self.has_colour(tone), kind)

    def test_stages_that_are_no_chain_have_a_map(self):
        self.open("towers")
        self.assertIn("Where a microbatch goes", self.text("details"))
        self.shoot("towers")
        self.find("4F2")
        details = self.text("details")
        # Only the last of its inputs to come is named.
        for part in ("Needs", "1F2", "Messages", "4RECV_F2>1", "4SEND_F2>5"):
            self.assertIn(part, details)
        def count(what):
            return self.script(
                "return document.querySelectorAll('#details .map ' + arguments[0]).length", what)
        self.assertEqual((count(".stage"), count(".edge"), count(".edge.chosen")), (6, 5, 3))
        self.shoot("towers_chosen")
        self.find("2B1")  # its microbatch left stage 3 out
        self.assertIn("2RECV_B1>4", self.text("details"))

    def test_slices_have_numbers_and_shades(self):
        self.open("slices")
        self.find("1F2.3")
        details = self.text("details")
        for part in ("1F2.3", "microbatch\n2.3", "Needs", "0F2.3"):
            self.assertIn(part, details)
        self.find("1F2")  # as 1F2.0
        self.assertIn("1F2.0", self.text("details"))
        self.find("2B0.3")
        self.assertIn("1B0.3", self.text("details"))
        self.key("Escape")
        self.shoot("slices")
        for slice_ in (0, 1):
            tone = self.inside(["data", "paint"],
                               f"makePaint('light', 1).rgb[toneAt(0, 0, 0, {slice_})]")
            self.assertTrue(self.has_colour(tone), slice_)

    def test_pipes_are_numbered_through_the_step(self):
        self.open("pipes")
        self.find("up[1]F2")
        details = self.text("details")
        self.assertIn("up[1]F2", details)
        self.assertIn("6 of the step, 2 of its pipe", details)
        page = (FOLDER / "pipes.html").read_text()
        heads = json.loads(re.search(r'id="headers">(.*?)</script>', page, re.S)[1])
        columns = re.search(r'class="columns">(.*?)</script>', page, re.S)[1]
        labels = self.inside(["data", "words", "draw"], """((head, columns) => {
            const t = readTimeline(head, bytesOf(columns), 0);
            return Array.from({length: t.n}, (_, i) => i).filter((i) => t.kind[i] === 0)
              .map((i) => labelTexts(t, i, NONE).join(' '));})(...arguments)""", heads[0], columns)
        # Four stages of a pipe, four microbatches of each pipe: every number of the step four times.
        self.assertEqual(sorted(labels), sorted(f"F{m} {m}" for m in range(8) for _ in range(4)))
        legend = self.text("legend")
        self.assertIn("pipe down", legend)
        self.assertIn("pipe up", legend)
        self.assertNotIn("every second stage", legend)
        self.shoot("pipes")

    def test_theme_switch(self):
        self.open("small")
        before = self.pixels()[1]
        self.key("t")
        self.key("t")  # auto, light, dark
        self.assertEqual(self.script("return document.documentElement.dataset.theme"), "dark")
        self.assertNotEqual(self.pixels()[1], before)
        self.key("t")

    def test_zooms_and_pans(self):
        self.open("small")
        whole, before = self.text("range"), self.pixels()[1]
        self.mouse("mouseWheel", 700, 200, deltaX=0, deltaY=-600)
        chromium.frame(self.browser)
        zoomed = self.text("range")
        self.assertNotEqual(zoomed, whole)
        self.assertNotEqual(self.pixels()[1], before)
        self.mouse("mousePressed", 700, 200, button="left", clickCount=1)
        for x in (690, 640, 560):
            self.mouse("mouseMoved", x, 200, button="left", buttons=1)
        self.mouse("mouseReleased", 560, 200, button="left")
        chromium.frame(self.browser)
        panned = self.text("range")
        self.assertNotEqual(panned, zoomed)
        self.assertIn("Where the time goes", self.text("details"), "a drag is no click")
        for key in ("+", "ArrowRight", "-", "ArrowLeft"):
            now = self.text("range")
            self.key(key)
            self.assertNotEqual(self.text("range"), now, key)
        self.key("0")
        self.assertEqual(self.text("range"), whole)

    def test_pinches(self):
        self.open("small")
        whole = self.text("range")
        box = self.script("return document.getElementById('upper').getBoundingClientRect().top")
        for kind, left, right in (("touchStart", 600, 700), ("touchMove", 560, 740),
                                  ("touchMove", 480, 820), ("touchEnd", None, None)):
            points = [] if left is None else [{"x": left, "y": box + 200, "id": 1},
                                              {"x": right, "y": box + 200, "id": 2}]
            self.browser.execute_cdp_cmd("Input.dispatchTouchEvent",
                                         {"type": kind, "touchPoints": points})
        chromium.frame(self.browser)
        self.assertNotEqual(self.text("range"), whole)
        self.assertIn("in all", self.text("range"))

    def test_hover_says_what_and_why(self):
        self.open("zb")
        self.mouse("mouseMoved", 180, 60)
        chromium.frame(self.browser)
        tip = self.text("tip")
        self.assertIn("0F0", tip)
        self.assertIn("starts with the step", tip)
        self.assertIn("schedules/zb_h1.sched:", tip)
        self.shoot("hover")

    def test_click_shows_needs_and_messages(self):
        self.open("zb")
        self.find("1I1")
        details = self.text("details")
        for part in ("1I1", "Needs", "2I1", "1F1", "Messages", "2SEND_B1", "1RECV_B1", "Needed by",
                     "0I1", "1W1", "Why not earlier", "zb_h1.sched"):
            self.assertIn(part, details)
        self.assertIn("1I1", self.text("live"))
        self.shoot("selected")
        self.click(180, 60)
        self.assertTrue(self.text("details").startswith("0F0"), self.text("details"))
        self.key("n")
        self.assertTrue(self.text("details").startswith("0F1"), self.text("details"))
        self.key("Escape")
        self.assertIn("Where the time goes", self.text("details"))

    def test_measured_says_what_is_reconstructed(self):
        self.open("measured")
        self.assertIn("96 of 96 starts reconstructed, by at most 2 us", self.text("titles"))
        self.assertIn("of 48 messages and reductions only the end was observed",
                      self.text("titles"))
        self.find("1I1")
        self.assertIn("it started 2 us after the start above", self.text("details"))
        self.shoot("measured")
        self.find("2SEND_B1")
        self.assertIn("only the end", self.text("details"))
        self.open("zb")
        self.assertNotIn("reconstructed", self.text("titles"))
        self.find("1I1")
        self.assertNotIn("observed", self.text("details"))

    def test_four_stages_of_a_rank_are_told_apart(self):
        self.open("stages")
        legend = self.text("legend")
        for place in ("first", "second", "third", "fourth"):
            self.assertEqual(legend.count(f"{place} stage of a rank"), 1, legend)
        # A bar stands under the third and fourth swatch alone.
        bars = self.script("return [...document.querySelectorAll('#legend span')].filter((s) => "
                           "s.firstChild.style.boxShadow).map((s) => s.textContent)")
        self.assertEqual(bars, ["third stage of a rank", "fourth stage of a rank"])
        shades = self.script("const headers = document.getElementById('headers').textContent;"
                             "return JSON.parse(headers)[0].shades")
        self.assertEqual(shades, [stage // 4 for stage in range(16)])
        self.shoot("stages")

    def test_search_says_when_there_is_none(self):
        self.open("zb")
        self.find("9F99")
        self.assertIn("no action 9F99", self.text("live"))

    def test_critical_path_and_messages(self):
        self.open("zb")
        before = self.pixels()[1]
        self.key("c")
        self.assertNotEqual(self.pixels()[1], before)
        self.assertEqual(self.script(
            "return document.getElementById('critical').getAttribute('aria-pressed')"), "true")
        self.shoot("critical")
        self.key("c")
        self.assertEqual(self.pixels()[1], before)
        self.key("m")
        self.shoot("messages")

    def test_folds(self):
        self.open("zb")
        before = self.pixels()[1]
        self.key("l")
        folded = self.pixels()[1]
        self.assertNotEqual(folded, before)
        self.click(30, 60)  # beside rank 0
        self.assertNotEqual(self.pixels()[1], folded)

    def test_two_timelines(self):
        for dark in (False, True):
            self.open("two", dark=dark)
            self.assertIn("shorter than A", self.text("titles"))
            self.assertIn("one_f_one_b", self.text("titles"))
            self.assertIn("zb_h1", self.text("titles"))
            self.shoot(f"two-{'dark' if dark else 'light'}")
        self.find("3F7")
        self.find("3F7")  # the next timeline's
        self.assertIn("timeline\nB", self.text("details"))

    def test_table_for_screen_readers(self):
        self.open("zb")
        rows = self.script("return document.querySelectorAll('#ranks tbody tr').length")
        self.assertEqual(rows, 4)
        self.assertIn("warm-up", self.text("ranks"))

    def test_narrow(self):
        self.open("small", width=480, height=900)
        self.assertGreater(self.pixels()[0], 30)
        self.shoot("narrow")

    def test_nothing_from_files_is_markup(self):
        self.open("hostile")
        self.assertEqual(self.script("return document.images.length"), 0)
        self.assertIn("onerror", self.browser.title)
        self.find("1F1")
        self.assertIn("<script>", self.text("titles"))
        self.assertIn("</script", self.text("details"))

    def test_without_a_plan(self):
        self.open("unwired")
        self.assertGreater(self.pixels()[0], 20)
        self.assertTrue(self.script("return document.getElementById('critical').disabled"))

    def test_where_nothing_happens(self):
        for name in ("nobody", "idle"):
            self.open(name)
            for key in ("n", "j", "+", "ArrowRight", "0", "c", "m", "l", "y", "z", "Escape"):
                self.key(key)
            self.mouse("mouseMoved", 300, 60)
            self.mouse("mouseMoved", 40, 60)
            chromium.frame(self.browser)

    def test_address_names_a_place(self):
        self.open("two")
        self.find("3F7")
        self.find("3F7")
        self.key("+")
        self.key("c")
        self.until(lambda: "action=3F7&in=B&critical" in self.browser.current_url)
        address, range_ = self.browser.current_url, self.text("range")
        self.browser.get("about:blank")
        self.browser.get(address)
        chromium.frame(self.browser)
        self.assertEqual(self.text("range"), range_)
        self.assertIn("timeline\nB", self.text("details"))

    def test_a_million_events(self):
        """Opens and pans the page. The figures are for people: they depend on the load of the
        machine."""
        self.open("zb")
        began = time.time()
        self.open("million")
        opened = time.time() - began
        self.assertIn("64 ranks", self.text("titles"))
        self.shoot("million")
        figures = [f"opens in {opened:.2f} s"]
        for zoom, name in ((0, "the whole step"), (6, "a hundredth of it"), (12, "single actions")):
            self.key("0")
            for _ in range(zoom):
                self.mouse("mouseWheel", 700, 300, deltaX=0, deltaY=-400)
            rate = self.frames_a_second()
            figures.append(f"{rate:.0f} frames/s panning over {name}")
        self.shoot("million-close")
        print("a million events: " + "; ".join(figures))

    def frames_a_second(self):
        """While arrow keys pan to and fro, a key per frame."""
        return self.browser.execute_async_script("""
            const done = arguments[0], canvas = document.getElementById('upper');
            const frames = 60, began = performance.now();
            let n = 0;
            const next = () => {
              if (n === frames) return done(1000 * frames / (performance.now() - began));
              const key = n++ % 20 < 10 ? 'ArrowRight' : 'ArrowLeft';
              canvas.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
              requestAnimationFrame(next);
            };
            requestAnimationFrame(next);""")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
