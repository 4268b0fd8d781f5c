"""Small products on several threads: the same results, whoever takes a tile, and whenever."""

import os
import threading
from time import sleep

import numpy as np
import pytest

import papilio as pp
from papilio.kernels.shared import AWAKE, DONE, MAILBOX, PARTS, ROOM, STATE, assist, wait
from papilio.operators import assistants, segments
from papilio.operators.assistants import Assistants

from .helpers import gaussian
from .twins import blocks, butterfly, ragged

CHAINS = {
    "blocks": [blocks(24, 40, 4, 4), blocks(40, 36, 4, 4)],
    "butterflies": [butterfly(32, 1), butterfly(32, 2), butterfly(32, 4)],
    "ragged": [ragged(13, 9), ragged(9, 14)],
}


@pytest.fixture
def sharing(monkeypatch):
    """All products are shared, with an assistant that is always awake."""
    monkeypatch.setattr(segments, "_SHARED_BYTES", 0)
    monkeypatch.setattr(assistants, "_BURST", np.inf)
    monkeypatch.setattr(assistants, "_PAUSE", 0.0)
    monkeypatch.setattr(assistants, "assistants", Assistants())
    pp.set_num_threads(3)
    yield assistants.assistants
    pp.set_num_threads(None)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_shared_products_have_the_bits_of_those_of_one_thread(name, order, dtype, sharing):
    op = pp.SparseProduct([mask * gaussian(mask.shape, dtype, seed) for seed, mask in enumerate(CHAINS[name])])
    X = np.asarray(gaussian((op.shape[1], 700), dtype), order=order)
    pp.set_num_threads(1)
    alone = op @ X
    pp.set_num_threads(3)
    for _ in range(30):
        np.testing.assert_array_equal(op @ X, alone)


@pytest.mark.parametrize("name", CHAINS)
def test_shared_products_with_one_vector_have_the_bits_of_those_of_one_thread(name, dtype, sharing, monkeypatch):
    monkeypatch.setattr(segments, "_SHARED_VECTOR_BYTES", 0)
    op = pp.SparseProduct([mask * gaussian(mask.shape, dtype, seed) for seed, mask in enumerate(CHAINS[name])])
    x = gaussian((op.shape[1],), dtype)
    pp.set_num_threads(1)
    alone = op @ x
    pp.set_num_threads(3)
    for _ in range(100):
        np.testing.assert_array_equal(op @ x, alone)


def test_dtypes_and_sizes_may_change_from_one_product_to_the_next(sharing):
    ops = [pp.SparseProduct([gaussian((9, n), kind)]) for n in (5, 300) for kind in (np.float32, np.complex128)]
    ops = [pp.SparseProduct([op.toarray() * (np.abs(op.toarray()) > 0.5)]) for op in ops]
    blocks_of = [gaussian((op.shape[1], 400), op.dtype) for op in ops]
    expected = [op.toarray() @ X for op, X in zip(ops, blocks_of, strict=True)]
    for _ in range(20):
        for op, X, product in zip(ops, blocks_of, expected, strict=True):
            np.testing.assert_allclose(op @ X, product, rtol=1e-3, atol=1e-3)


def test_threads_that_apply_products_at_the_same_time_do_not_disturb_each_other(sharing):
    op = pp.SparseProduct([mask * gaussian(mask.shape) for mask in CHAINS["blocks"]])
    X = [gaussian((36, 500), seed=seed) for seed in range(4)]
    alone = [op.toarray() @ x for x in X]
    wrong = []

    def work(i):
        for _ in range(50):
            if not np.allclose(op @ X[i], alone[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_assistants_without_memory_leave_all_to_the_caller(sharing, monkeypatch):
    op, X = pp.SparseProduct([gaussian((8, 8)) * np.eye(8)]), gaussian((8, 500))
    failed = threading.Event()

    def workspace(n_bytes):
        failed.set()
        raise MemoryError

    monkeypatch.setattr(assistants, "workspace", workspace)
    for _ in range(3):
        np.testing.assert_allclose(op @ X, op.toarray() @ X)
    assert failed.wait(10)
    monkeypatch.undo()
    assert all(thread.is_alive() for thread in sharing._threads)


def test_assistants_sleep_when_there_is_nothing_to_do(sharing):
    op, X = pp.SparseProduct([gaussian((8, 8)) * np.eye(8)]), gaussian((8, 500))
    for _ in range(3):
        op @ X
    for _ in range(1000):
        if not sharing._mailbox[AWAKE]:
            break
        sleep(0.01)
    assert sharing._mailbox[AWAKE] == 0


def test_an_assistant_takes_no_tile_of_another_dtype_or_without_room_and_says_so():
    mailbox, room = np.zeros(MAILBOX, dtype=np.int64), np.empty(1 << 12, dtype=np.uint8)
    mailbox[PARTS] = 5  # of dtype 0, in no room
    assert assist(np.empty(0), mailbox, 1, room, 100)
    mailbox[ROOM] = room.size + 1
    assert assist(np.empty(0, np.float32), mailbox, 0, room, 100)
    assert mailbox[STATE] == mailbox[DONE] == mailbox[AWAKE] == 0
    mailbox[STATE] = 5  # all are taken
    assert not assist(np.empty(0, np.float32), mailbox, 0, room, 100)
    assert mailbox[STATE] == 5
    assert not wait(mailbox, 100)
    mailbox[DONE] = 5
    assert wait(mailbox, 100)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_assistants_of_its_own(sharing):
    op, X = pp.SparseProduct([gaussian((8, 8)) * np.eye(8)]), gaussian((8, 500))
    expected = op @ X
    child = os.fork()
    if child == 0:
        os._exit(0 if assistants.assistants is not sharing and np.array_equal(op @ X, expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
