"""A limit on how many threads compute at the same time."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cr5.machine.concurrency import ConcurrencyLimit


def waiting(limit: ConcurrencyLimit, number: int) -> None:
    """Wait until so many threads wait for a place."""
    while len(limit._waiting) < number:
        time.sleep(0.001)


@pytest.mark.parametrize("threads", [1, 3])
def test_no_more_threads_than_allowed_are_inside(threads: int) -> None:
    limit, lock, inside, most = ConcurrencyLimit(threads), threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal inside, most
        with limit:
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.001)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert (inside, most) == (0, threads)


def test_threads_enter_in_the_order_in_which_they_came() -> None:
    limit, entered = ConcurrencyLimit(1), list[int]()

    def work(number: int) -> None:
        with limit:
            entered.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    with limit:
        for number, thread in enumerate(threads):
            thread.start()
            waiting(limit, number + 1)
    for thread in threads:
        thread.join()
    assert entered == [*range(5)]


def test_an_error_inside_makes_room_for_the_next_thread() -> None:
    limit = ConcurrencyLimit(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), limit:
            raise ZeroDivisionError


def test_the_default_is_the_number_of_cores() -> None:
    limit = ConcurrencyLimit()
    with limit:  # at least one
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have() -> None:
    limit = ConcurrencyLimit(1)
    with limit:
        child = os.fork()
        if not child:
            with limit:
                os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
