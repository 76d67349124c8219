"""Reads a trace back with protobuf's own decoder, by Perfetto's published field numbers, and
compares the trace with the tool's answers for the same step.

    read_test.py STRINGLINE SOURCES

Status 77, with a line of explanation, without protobuf: skipped, for ctest.
"""

import collections
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

# The packaged protobuf belongs to the packaged Python, which may not be the first on the path.
PACKAGED = "/usr/bin/python3"


def has_protobuf():
    try:
        return importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:
        return False


if not has_protobuf():
    if os.path.exists(PACKAGED) and os.path.realpath(sys.executable) != os.path.realpath(PACKAGED):
        os.execv(PACKAGED, [PACKAGED, *sys.argv])
    print("skipped: python3-protobuf is not installed")
    sys.exit(77)

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402

FIELD = descriptor_pb2.FieldDescriptorProto
NUMBERS = {"uint64": FIELD.TYPE_UINT64, "uint32": FIELD.TYPE_UINT32, "int32": FIELD.TYPE_INT32,
           "int64": FIELD.TYPE_INT64, "fixed64": FIELD.TYPE_FIXED64, "string": FIELD.TYPE_STRING}

# From perfetto's public .proto files: message, then field: (number, type); "*" is repeated.
MESSAGES = {
    "Trace": {"packet": (1, "*TracePacket")},
    "TracePacket": {"timestamp": (8, "uint64"), "sequence": (10, "uint32"),
                    "track_event": (11, "TrackEvent"), "interned_data": (12, "InternedData"),
                    "sequence_flags": (13, "uint32"),
                    "track_descriptor": (60, "TrackDescriptor")},
    "TrackDescriptor": {"uuid": (1, "uint64"), "name": (2, "string"),
                        "process": (3, "ProcessDescriptor"), "parent_uuid": (5, "uint64"),
                        "counter": (8, "CounterDescriptor")},
    "ProcessDescriptor": {"pid": (1, "int32"), "process_name": (6, "string")},
    "CounterDescriptor": {"unit": (3, "int32")},
    "TrackEvent": {"debug_annotations": (4, "*DebugAnnotation"), "type": (9, "int32"),
                   "name_iid": (10, "uint64"), "track_uuid": (11, "uint64"),
                   "categories": (22, "*string"), "counter_value": (30, "int64"),
                   "flow_ids": (47, "*fixed64"), "terminating_flow_ids": (48, "*fixed64")},
    "InternedData": {"event_names": (2, "*InternedName"),
                     "debug_annotation_names": (3, "*InternedName")},
    "InternedName": {"iid": (1, "uint64"), "name": (2, "string")},
    "DebugAnnotation": {"name_iid": (1, "uint64"), "int_value": (4, "int64"),
                        "string_value": (6, "string")},
}

STEPS = [
    "schedules/1f1b.sched P=4 M=8 --cost F=10,I=12,W=7,p2p=3",
    "schedules/dualpipe_v.sched P=4 M=8 --layout pair",
    "schedules/chimera.sched P=4 M=8 --cost F=10,I=12,W=7,message=1MB,bandwidth=100GB/s",
]


def trace_class():
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package="t", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            repeated = kind.startswith("*")
            kind = kind.lstrip("*")
            field = message.field.add(name=field_name, number=number)
            field.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            if kind in NUMBERS:
                field.type = NUMBERS[kind]
            else:
                field.type = FIELD.TYPE_MESSAGE
                field.type_name = f".t.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("t.Trace")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)


def unknown_fields(message):
    """The bytes of fields outside the published numbers."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return message.ByteSize() - copy.ByteSize()


def slices_of(trace):
    """(process, name, start, length) of every slice, and the beginnings and ends of flows."""
    names, processes, parents = {}, {}, {}
    open_slices = collections.defaultdict(list)
    slices, begins, ends = collections.Counter(), set(), set()
    for packet in trace.packet:
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            parents[track.uuid] = track.parent_uuid
            if track.HasField("process"):
                processes[track.uuid] = track.process.process_name
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        begins.update(event.flow_ids)
        ends.update(event.terminating_flow_ids)
        if event.type == 1:
            open_slices[event.track_uuid].append((names[event.name_iid], packet.timestamp))
        elif event.type == 2:
            name, start = open_slices[event.track_uuid].pop()
            process = processes[parents[event.track_uuid]]
            slices[(process, name, start, packet.timestamp - start)] += 1
    assert not any(open_slices.values()), "slices that never end"
    return slices, begins, ends


def expected(shown):
    slices = collections.Counter()
    for rank, events in enumerate(shown["ranks"]):
        for event in events:
            start = round(event["start_us"] * 1000)
            length = round(event["end_us"] * 1000) - start
            slices[(f"rank {rank}", event["action"], start, length)] += 1
    return slices


def main():
    tool, sources = sys.argv[1:3]
    make = trace_class()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.pftrace")
        for step in STEPS:
            command = [tool, "show", *step.split()]
            subprocess.run([*command, "--perfetto", path], cwd=sources, check=True)
            shown = json.loads(subprocess.run([*command, "--json"], cwd=sources, check=True,
                                              stdout=subprocess.PIPE).stdout)
            trace = make()
            with open(path, "rb") as file:
                trace.ParseFromString(file.read())
            slices, begins, ends = slices_of(trace)
            wrong = [what for what, is_right in [
                ("slices", slices == expected(shown)), ("flows", begins and begins == ends),
                ("unknown fields", unknown_fields(trace) == 0)] if not is_right]
            good = good and not wrong
            print(f"{'FAILED: ' + ', '.join(wrong) if wrong else 'ok'}: {step}, "
                  f"{sum(slices.values())} slices, {len(begins)} flows")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
