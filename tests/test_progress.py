"""The first Ctrl-C is a request, the second an order."""

import signal
import threading
from collections.abc import Iterator

import pytest

from cr5.progress import Progress, silent, stop_on_interrupt


@pytest.fixture(autouse=True)
def handler() -> Iterator[object]:
    """The handler of before, which every test must find again."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    assert signal.getsignal(signal.SIGINT) is before


def test_the_first_interrupt_only_makes_the_question_true() -> None:
    with stop_on_interrupt() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
    assert stop()


def test_the_second_interrupt_interrupts() -> None:
    with stop_on_interrupt() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop()


def test_the_handler_of_before_returns_after_an_error(handler: object) -> None:
    def fails() -> None:
        with stop_on_interrupt():
            assert signal.getsignal(signal.SIGINT) is not handler
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert signal.getsignal(signal.SIGINT) is handler


def test_after_the_block_an_interrupt_interrupts_at_once() -> None:
    with stop_on_interrupt():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_blocks_one_after_the_other_ask_anew() -> None:
    with stop_on_interrupt() as first:
        signal.raise_signal(signal.SIGINT)
    with stop_on_interrupt() as second:
        assert (first(), second()) == (True, False)


def test_another_thread_leaves_the_handler_alone_and_is_never_stopped(handler: object) -> None:
    seen: list[object] = []

    def work() -> None:
        with stop_on_interrupt() as stop:
            seen.extend([signal.getsignal(signal.SIGINT), stop()])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handler, False]


def test_silence_takes_any_report(capsys: pytest.CaptureFixture[str]) -> None:
    silent(Progress("fit", 1, None, "half way"))
    assert capsys.readouterr() == ("", "")
