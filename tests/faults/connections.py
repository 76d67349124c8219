"""Connections of other processes, as the system lists them: to be cut, or knocked at by strangers."""

import ctypes
import os
import pathlib
import socket
import threading

PIDFD_GETFD = 438
LISTENS, ESTABLISHED = "0A", "01"


def sockets_of(process):
    """The process's TCP sockets over IPv4: descriptor -> (own end, other end, state)."""
    known = {}
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        known[words[9]] = (words[1], words[2], words[3])
    found = {}
    folder = f"/proc/{process}/fd"
    for name in os.listdir(folder):
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if target.startswith("socket:[") and target[8:-1] in known:
            found[int(name)] = known[target[8:-1]]
    return found


def between(a, b):
    """Descriptors of process a that are connected to process b."""
    try:
        ends = {own for own, _, state in sockets_of(b).values() if state == ESTABLISHED}
        return [file for file, (_, other, _) in sockets_of(a).items() if other in ends]
    except OSError:
        return []


def is_at(process, file, port):
    """True if an end of the connection is at this port."""
    try:
        own, other, _ = sockets_of(process).get(file, ("", "", ""))
    except OSError:
        return False
    return f":{port:04X}" in (own[-5:], other[-5:])


def cut(process, files):
    """Shuts these connections down, as a network that fails. Returns how many."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = 0
    try:
        of = os.pidfd_open(process)
    except OSError:
        return 0
    try:
        for file in files:
            lent = libc.syscall(PIDFD_GETFD, of, file, 0)
            if lent < 0:
                continue
            with socket.socket(fileno=lent) as one:
                one.shutdown(socket.SHUT_RDWR)
                done += 1
    except OSError:
        pass
    finally:
        os.close(of)
    return done


def ports_of(process):
    """Ports at which a process listens."""
    try:
        found = sockets_of(process).values()
    except OSError:
        return []
    return [int(own.split(":")[1], 16) for own, _, state in found if state == LISTENS]


class Strangers:
    """Threads that connect to ports again and again, and say nothing, nonsense, or half a hello."""

    WORDS = (b"", b"GET / HTTP/1.0\r\n\r\n", bytes(32), os.urandom(200), b"\xff" * 70000)

    def __init__(self, count, ports):
        self.ports, self.made, self.ended = ports, 0, False
        self.threads = [threading.Thread(target=self._knock, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _knock(self, number):
        kept = []
        while not self.ended:
            for port in self.ports():
                one = socket.socket()
                one.settimeout(0.05)
                try:
                    one.connect(("127.0.0.1", port))
                    self.made += 1
                    one.sendall(self.WORDS[(number + self.made) % len(self.WORDS)])
                except OSError:
                    pass
                kept.append(one)
                if len(kept) > 20:
                    kept.pop(0).close()
            threading.Event().wait(0.01)
        for one in kept:
            one.close()

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()
