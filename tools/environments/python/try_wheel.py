"""Uses the installed package once, and checks that the wheel contains everything it needs."""

import pathlib
import platform

import stringline

plan = stringline.load("zb_h1").plan(P=4, M=8)
proof = plan.check()
step = plan.simulate({"F": 10, "I": 10, "W": 10})
assert proof["actions"] == 96 and step.makespan_us == 270, (proof, step)
assert len(step.events) == 192 and step.end_ns.max() == 270_000

home = pathlib.Path(stringline.__file__).parent.parent
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
names = ("absl", "yaml-cpp")
outside = [path for path in loaded if any(name in path for name in names) and str(home) not in path]
assert not outside, f"not of the wheel: {outside}"
print(f"Python {platform.python_version()}: {step!r}")
