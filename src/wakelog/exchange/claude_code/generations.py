"""Places of Claude Code's records in the tree of a session.

Records name their parents by uuid, but not every fork of these uuids is a branch: results hang off different lines of
one reply, and progress hangs beside results. A *generation* is a prompt or a reply and all that follows it up to the
next one; its entries form a chain. A record whose parent is in the current generation continues at its end. One whose
parent is in another generation is a rewind: it begins a branch at the end of that generation.
"""

from array import array

from wakelog.log.content import JsonObject


class Generations:
    """The generations of a session: for each the last entry and the generation before it.

    Generation 0 is what precedes the first prompt. `current` is the one that the next record continues.
    """

    def __init__(self) -> None:
        self.current = 0
        self._last: list[str] = [""]
        self._before: list[int] = [0]
        # How many generations are before each one, and an earlier one of its branch: the steps to any generation before
        # it are then few, however long the branch is.
        self._depths = array("I", [0])
        self._jumps = array("I", [0])
        self._environments: list[JsonObject] = [{}]
        # Records by number, numbers by hash: the uuids of a million records would take more memory than all the rest.
        self._numbers: dict[int, int] = {}
        self._generations = array("I")
        self._fingerprints = array("q")

    @property
    def tip(self) -> str:
        """The id of the entry that the next one follows; empty if there is none."""
        return self._last[self.current]

    def of(self, uuid: object) -> int | None:
        """Return the generation of a record; None if there is no such record."""
        number = self._numbers.get(hash(uuid)) if isinstance(uuid, str) else None
        return None if number is None else self._generations[number]

    def has_same(self, uuid: str, fingerprint: int) -> bool:
        """Return whether the record with this uuid has this fingerprint."""
        number = self._numbers.get(hash(uuid))
        return number is not None and self._fingerprints[number] == fingerprint

    def put(self, uuid: object, generation: int, fingerprint: int) -> None:
        """Record the generation of a record, and a fingerprint of its content."""
        if not isinstance(uuid, str):
            return
        number = self._numbers.setdefault(hash(uuid), len(self._generations))
        if number == len(self._generations):
            self._generations.append(generation)
            self._fingerprints.append(fingerprint)
        else:
            self._generations[number], self._fingerprints[number] = generation, fingerprint

    def last_entry(self, generation: int) -> str:
        """Return the id of the last entry of a generation."""
        return self._last[generation]

    def extend(self, entry_id: str, generation: int | None = None) -> None:
        """Add an entry at the end of a generation, by default the current one."""
        self._last[self.current if generation is None else generation] = entry_id

    def begin(self, entry_id: str, after: int) -> None:
        """Begin a generation with an entry after the last one of another generation; it becomes the current one."""
        jump = self._jumps[after]
        depths, far = self._depths, self._jumps[jump]
        is_even = depths[after] - depths[jump] == depths[jump] - depths[far]
        self._before.append(after)
        self._depths.append(depths[after] + 1)
        self._jumps.append(far if is_even else after)
        self._environments.append(self._environments[after])
        self._last.append(entry_id)
        self.current = len(self._last) - 1

    def environment(self, generation: int) -> JsonObject:
        """Return the environment at the end of a generation; empty if no record has stated one."""
        return self._environments[generation]

    def set_environment(self, generation: int, environment: JsonObject) -> None:
        """Record the environment at the end of a generation, which is also that of the next ones."""
        self._environments[generation] = environment

    def is_on_branch(self, generation: int, of: int) -> bool:
        """Return whether a generation is on the branch that ends with the generation `of`."""
        depth = self._depths[generation]
        while self._depths[of] > depth:
            of = self._nearer(of, depth)
        return of == generation

    def _nearer(self, generation: int, depth: int) -> int:
        """Return a generation before another one that is at this depth or deeper."""
        jump = self._jumps[generation]
        return jump if self._depths[jump] >= depth else self._before[generation]
