"""nmt serve: a translation service on this machine."""

import argparse
import copy
import ctypes
import logging
import platform
import re
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from nmt.audit.faults import unlike_pairs
from nmt.commands.engine import open_engine
from nmt.config.schema import DataConfig
from nmt.documents.memory import TranslationMemory
from nmt.errors import UserError, install_extra
from nmt.serve.corrections import Corrections

log = logging.getLogger("nmt")
ORIGIN = re.compile(r"https?://[^\s/,]+|[a-z-]+-extension://[^\s/,]+")
# of malloc.h
M_ARENA_MAX = -8
M_MMAP_THRESHOLD = -3
# after which a thread lets another one run Python: a long text holds up no short one
SWITCH_SECONDS = 0.0005
LARGE = 1 << 20  # bytes of a block that is given back at once
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run(options: argparse.Namespace) -> int:
    """Answer requests until SIGINT or SIGTERM; what has been taken is answered first."""
    try:
        import uvicorn

        from nmt.serve.app import make_app
        from nmt.serve.batching import Queues
        from nmt.serve.clients import make_key, read_keys
        from nmt.serve.limits import Limits
        from nmt.serve.service import Pair, Service, pairs_of
    except ImportError as error:
        raise UserError(f"nmt serve cannot run here ({error}): {install_extra('serve')}.") from None
    keys = Path(options.keys) if options.keys else None
    if options.new_key is not None:
        if keys is None:
            raise UserError("--new-key NAME needs --keys FILE, which gets its hash.")
        print(make_key(keys, options.new_key))
        return 0
    if not options.names:
        raise UserError("Say which run translates: nmt serve RUN [RUN …].")
    known = read_keys(keys) if keys else None
    limits = Limits(
        options.characters, options.texts, options.megabytes, options.seconds, options.requests
    )
    corrections = open_corrections(options, known)
    listener = listen(options.host, options.port)
    keep_memory_together()
    sys.setswitchinterval(SWITCH_SECONDS)
    devices = threading.Lock(), threading.Lock()
    pairs: dict[tuple[str, str], Pair] = {}
    units: dict[tuple[str, str], TranslationMemory] = {}
    for name in options.names:
        own = copy.copy(options)
        own.name = name
        opened = open_engine(own, None, live=True)
        if glossary := file_of(options.glossary, options.names, name):
            opened = opened.with_glossary(glossary)
        found = pairs_of(opened, Queues(opened.translator, devices))
        if twice := found.keys() & pairs.keys():
            raise UserError(
                f"{name} translates {'-'.join(min(twice))}, as a run before it does; leave one of "
                "them out."
            )
        pairs |= found
        if memory := file_of(options.memory, options.names, name):
            units |= open_memories(Path(memory), opened.config.data, list(found))
    if options.host not in LOOPBACK and known is None:
        log.warning(
            "Everyone who reaches %s may translate here; --keys FILE asks for a key.", options.host
        )
    service = Service(
        pairs,
        limits,
        known,
        read_origins(options.cors),
        corrections=corrections,
        acceptors=options.accept,
        units=units,
    )
    directions = ", ".join(f"{source}→{target}" for source, target in pairs)
    log.info(
        "http://%s:%d/ translates %s; Ctrl-C ends.",
        options.host,
        listener.getsockname()[1],
        directions,
    )
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again once it has ended
        signal.signal(number, lambda *_: None)
    config = uvicorn.Config(
        make_app(service),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=limits.seconds,
        timeout_keep_alive=30,
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            service.stop()
            super().handle_exit(sig, frame)

    Server(config).run(sockets=[listener])
    return 0


def open_corrections(
    options: argparse.Namespace, keys: dict[str, str] | None
) -> Corrections | None:
    """The file of --corrections; raises UserError, also for --accept of a key that is not there."""
    if options.accept and not options.corrections:
        raise UserError("--accept needs --corrections FILE, where corrections are kept.")
    for name in options.accept:
        if name not in (keys or {}).values():
            raise UserError(f"--accept {name}: no key of --keys FILE has this name.")
    return Corrections(Path(options.corrections), create=True) if options.corrections else None


def file_of(given: Sequence[str], runs: Sequence[str], run: str) -> str | None:
    """The file that RUN=FILE names for a run, or FILE for all; of several the last."""
    of_all = None
    of_run = None
    for word in given:
        name, _, file = word.partition("=")
        if name == run:
            of_run = file
        elif name not in runs:
            of_all = word
    return of_run or of_all


def open_memories(
    path: Path, data: DataConfig, directions: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], TranslationMemory]:
    """The memory for each direction of a run that the file has; raises UserError for none."""
    memories = {}
    for source, target in directions:
        of_pair = replace(data, source=source, target=target)
        try:
            memories[source, target] = TranslationMemory.open(path, of_pair, unlike_pairs)
        except UserError as error:
            if len(directions) == 1:
                raise
            log.warning("%s→%s has no memory: %s", source, target, error)
    if not memories:
        raise UserError(f"--memory {path} has no pairs in the languages of the run.")
    return memories


def keep_memory_together() -> None:
    """Let the threads of this process share two heaps, and give large blocks back at once.

    By default glibc has eight heaps for each core. Each keeps what the largest request of its
    threads needed, so that a service grew for hours.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 2)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)


def read_origins(given: str | None) -> list[str]:
    """The origins of --cors; raises UserError for what no browser would send as one."""
    origins = given.split(",") if given else []
    for origin in origins:
        if origin != "*" and not ORIGIN.fullmatch(origin):
            raise UserError(f"--cors {origin} is not an origin such as https://example.org, or *.")
    return origins


def listen(host: str, port: int) -> socket.socket:
    """A socket for an address; raises UserError where it cannot be had."""
    try:
        if not 0 <= port < 1 << 16:
            raise OSError(0, "ports are below 65536")
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise UserError(
            f"--host {host} --port {port} cannot be used: {error.strerror}; choose another."
        ) from None
