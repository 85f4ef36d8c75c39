"""Ctrl-C: the first one requests a stop, the second one interrupts."""

import signal
import threading
from collections.abc import Iterator

import pytest

from cr5.progress import Progress, no_progress, stop_on_interrupt


@pytest.fixture(autouse=True)
def handler() -> Iterator[object]:
    """The previous handler of SIGINT, which every test must restore."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    assert signal.getsignal(signal.SIGINT) is before


def test_the_first_interrupt_only_requests_a_stop() -> None:
    with stop_on_interrupt() as should_stop:
        assert not should_stop()
        signal.raise_signal(signal.SIGINT)
        assert should_stop()
    assert should_stop()


def test_the_second_interrupt_raises() -> None:
    with stop_on_interrupt() as should_stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert should_stop()


def test_the_previous_handler_is_restored_after_an_error(handler: object) -> None:
    def fails() -> None:
        with stop_on_interrupt():
            assert signal.getsignal(signal.SIGINT) is not handler
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert signal.getsignal(signal.SIGINT) is handler


def test_after_the_block_an_interrupt_raises_at_once() -> None:
    with stop_on_interrupt():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_second_block_does_not_remember_the_request_of_the_first() -> None:
    with stop_on_interrupt() as first:
        signal.raise_signal(signal.SIGINT)
    with stop_on_interrupt() as second:
        assert (first(), second()) == (True, False)


def test_another_thread_does_not_change_the_handler_and_is_never_stopped(handler: object) -> None:
    seen: list[object] = []

    def work() -> None:
        with stop_on_interrupt() as should_stop:
            seen.extend([signal.getsignal(signal.SIGINT), should_stop()])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [handler, False]


def test_the_silent_callback_accepts_any_report(capsys: pytest.CaptureFixture[str]) -> None:
    no_progress(Progress("fit", 1, None, "half way"))
    assert capsys.readouterr() == ("", "")


def test_the_first_interrupt_is_reported_at_once() -> None:
    seen: list[Progress] = []
    with stop_on_interrupt(seen.append):
        signal.raise_signal(signal.SIGINT)
        assert [report.note for report in seen] == ["press Ctrl-C again to stop at once"]
