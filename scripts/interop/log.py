"""Write-hole logs, read with the scripts' own codec, written from the format's specification."""
import random
import struct

from .requirement import require
from .volume import MIB

LOG_BYTES = MIB
HEADER_BYTES = 4096


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    rest = 0xFFFFFFFF
    for byte in data:
        rest = rest >> 8 ^ CRC_TABLE[(rest ^ byte) & 0xFF]
    return rest ^ 0xFFFFFFFF


def newest_unit(area):
    """The entries of the last header of a chain (first sector, partial parity bytes, data bytes, slot), and whether all
    their partial parity is valid."""
    at, generation, entries, is_whole = 0, 0, [], True
    while at + HEADER_BYTES <= len(area):
        header = bytearray(area[at : at + HEADER_BYTES])
        found_generation, count, checksum = struct.unpack_from("<QII", header, 520)
        struct.pack_into("<I", header, 532, 0)
        if crc32c(header) != checksum or found_generation < generation:
            break
        generation = found_generation
        entries = [struct.unpack_from("<QIIII", header, 536 + 24 * n) for n in range(count)]
        at += HEADER_BYTES
        is_whole = True
        for _, partial, _, _, checksum in entries:
            is_whole &= partial == 0 or crc32c(area[at : at + partial]) == checksum
            at += partial
    return [entry[:4] for entry in entries], is_whole


def newest_units(volume):
    """The newest unit of each slot's log."""
    return [newest_unit(volume.read(slot, volume.component, LOG_BYTES)) for slot in range(volume.members)]


def spoil_logged_parity(volume, lost=None):
    """Overwrites the parity that the newest units cover with random bytes, so that only a replay can make it right
    again. Entries that changed a chunk of slot `lost` are left alone. Returns the number of overwritten entries."""
    spoiled = 0
    for slot, (entries, _) in enumerate(newest_units(volume)):
        for sector, partial, data, parity in entries:
            require(parity == slot, f"an entry in slot {slot} for parity in slot {parity}")
            chunk, offset = divmod(sector * 512, volume.chunk)
            row, first = divmod(chunk, volume.members - 1)
            require(volume.parity_slot(row) == slot, "an entry for another slot's row")
            count = data // partial if partial else volume.members - 1
            length = data // count
            slots = [at + (at >= slot) for at in range(first, first + count)]
            if lost in slots or lost == slot:
                continue
            volume.write(slot, row * volume.chunk + offset, random.randbytes(length))
            spoiled += 1
    return spoiled
