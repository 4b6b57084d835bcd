"""Reads a volume's content from the drives' files, with the scripts' own code, written from the format's
specification."""

MIB = 1 << 20


def xor(blocks, length):
    total = 0
    for block in blocks:
        total ^= int.from_bytes(block, "little")
    return total.to_bytes(length, "little")


class Volume:
    """One volume as a record of `fullstripe examine --json` describes it. `paths` finds files by serial."""

    def __init__(self, report, paths):
        self.report = report
        self.level = report["level"]
        self.members = report["members"]
        self.chunk = report["chunk_bytes"] or 65536
        self.start = report["start_bytes"]
        self.component = report["component_bytes"]
        self.size = report["size_bytes"]
        self.paths = [paths.get(slot["serial"]) for slot in report["slots"]]
        self.in_sync = [slot["in_sync"] for slot in report["slots"]]

    def read(self, slot, at=0, length=None):
        with open(self.paths[slot], "rb") as file:
            file.seek(self.start + at)
            return file.read(self.component if length is None else length)

    def write(self, slot, at, data):
        with open(self.paths[slot], "r+b") as file:
            file.seek(self.start + at)
            file.write(data)

    def rows(self):
        return self.component // self.chunk

    def parity_slot(self, row):
        return self.members - 1 - row % self.members

    def data_slots(self, row):
        """The slots of a row's chunks, in the order of the volume's bytes."""
        if self.level == 0:
            return list(range(self.members))
        if self.level == 5:
            return [slot for slot in range(self.members) if slot != self.parity_slot(row)]
        return list(range(0, self.members, 2))

    def mirror(self, slot):
        """The other copy of a slot of RAID 1 or 10."""
        return slot ^ 1

    def content(self, lost=()):
        """All bytes of the volume. The content of slots in `lost` and of those that are not in sync is computed from
        the others."""
        lost = set(lost) | {slot for slot in range(self.members) if not self.in_sync[slot]}
        columns = [None if slot in lost else self.read(slot) for slot in range(self.members)]
        for slot in lost:
            if self.level == 5:
                columns[slot] = xor([column for column in columns if column], self.component)
            elif self.level in (1, 10):
                columns[slot] = columns[self.mirror(slot)]
        whole = bytearray()
        for row in range(self.rows()):
            for slot in self.data_slots(row):
                whole += columns[slot][row * self.chunk : (row + 1) * self.chunk]
        return bytes(whole)

    def wrong_rows(self):
        """Rows whose parity does not match, or whose copies differ."""
        if self.level == 0:
            return []
        columns = [self.read(slot) for slot in range(self.members)]
        if self.level == 5:
            whole = xor(columns, self.component)
            if whole.count(0) == len(whole):
                return []
            zero = bytes(self.chunk)
            return [row for row in range(self.rows())
                    if whole[row * self.chunk : (row + 1) * self.chunk] != zero]
        wrong = []
        for row in range(self.rows()):
            part = slice(row * self.chunk, (row + 1) * self.chunk)
            if any(columns[slot][part] != columns[slot + 1][part] for slot in range(0, self.members, 2)):
                wrong.append(row)
        return wrong

    def redundant_slot(self, row):
        """A slot of that row that can be overwritten without harm to data as long as no member is lost."""
        return self.parity_slot(row) if self.level == 5 else 1
