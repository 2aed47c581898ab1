"""The end of a command that runs until SIGTERM or Ctrl-C.

Put here: signal handlers, and the text that is printed after a signal.
Not here: the work that ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """End the block at SIGTERM as at Ctrl-C, so that its processes are stopped first."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    try:
        with _handle([signal.SIGTERM], interrupt):
            yield
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)


@contextmanager
def stop_event(note: str = "") -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; `note` is printed then."""
    stop = threading.Event()

    def set_event() -> None:
        if note:
            click.echo(note, err=True)
        stop.set()

    with _handle([signal.SIGTERM, signal.SIGINT], set_event):
        yield stop


@contextmanager
def _handle(numbers: list[signal.Signals], action: Callable[[], None]) -> Iterator[None]:
    before = [signal.signal(number, lambda *_: action()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
