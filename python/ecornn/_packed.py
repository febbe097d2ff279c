"""Packed weights that a layer keeps for its next runs, on arrays as in torch."""

from __future__ import annotations

from ._locks import make_lock

_KEPT = 8  # blocks of a layer for plans that cannot share one


class Packed:
    """Blocks of packed weights of one layer: (plan, block, key) each, the newest last.

    On a CPU a block is written once, by `pack`, before any other run finds it.  So a run, or a graph that waits
    for its backward, may read it as long as it refers to it, whatever happens to the parameters meanwhile.
    For example a training loop packs once a step: the block of the step before is out of date and
    leaves the list.  Its memory returns when the last reference to it ends, mostly there.

    A class has holds(block, given), whether a block has the weights of now or was given them, and
    pack(plan, given), a new block.
    """

    def __init__(self) -> None:
        self.records: list[tuple] = []
        self.lock = make_lock()  # of those that pack

    def find(self, plan, key) -> tuple | None:
        """The record with that key which runs of the plan can take, perhaps of earlier weights."""
        for record in self.records:
            if record[2] == key and plan.takes(record[0]):
                return record
        return None

    def of(self, plan, key, given):
        """The block for that plan with the weights of now."""
        with self.lock:
            record = self.find(plan, key)
            if record is not None and self.holds(record[1], given):
                return record[1]
            if record is not None:
                self.records[:] = [one for one in self.records if one is not record]
            del record  # the last reference to its block, unless a run or a graph has one
            block = self.pack(plan, given)
            self.records.append((plan, block, key))
            del self.records[:-_KEPT]
            return block
