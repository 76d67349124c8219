"""Python goes on during work in C++, and Ctrl-C ends the work."""

import os
import signal
import subprocess
import sys
import threading

import stringline
from tool import COSTS


def test_python_goes_on_meanwhile():
    worker = threading.Thread(target=stringline.search, args=(8, 32, COSTS), kwargs={"seconds": 2})
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
    assert turns > 1000


def test_several_threads_simulate_at_once():
    plans = [stringline.load(name).plan(P=8, M=64) for name in ("zb_v", "dualpipe_v", "1f1b")]
    alone = [plan.simulate(COSTS).text for plan in plans]
    found = {}

    def simulate(index):
        plan = plans[index % len(plans)]
        found[index] = [plan.simulate(COSTS).text for _ in range(4)]

    threads = [threading.Thread(target=simulate, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == [alone[i % len(plans)]] * 4 for i in range(6))


# Calls that take minutes and more, each announced at its beginning.
LONG = {
    "search": "stringline.search(8, 48, {'F': [3, 2, 4, 2, 3, 5, 1, 3], 'I': 2, 'W': 1, 'p2p': 1}, "
              "activations=5, seconds=3000)",
    "sweep": "stringline.sweep(stringline.library(), P=range(16, 40), M=range(80, 4000))",
    "report": "stringline.load('zb_v').plan(8, 200).simulate('F=1,I=1,W=1,jitter=5%')"
              ".report(runs=1000000)",
}


def test_ctrl_c_ends_it():
    for name, call in LONG.items():
        program = (
            "import stringline\n"
            "print('begun', flush=True)\n"
            f"try:\n    {call}\n"
            "except KeyboardInterrupt:\n    print('interrupted')\n"
        )
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=os.environ)
        try:
            assert process.stdout.readline() == "begun\n"
            try:
                process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                pass
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
        assert out == "interrupted\n", (name, out, err)
