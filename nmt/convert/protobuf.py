"""The protocol buffers' wire format, as far as two small exports need it: fields of whole numbers, texts and messages.

https://protobuf.dev/programming-guides/encoding
"""

from collections.abc import Iterator

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5  # the wire types
SIZES = {FIXED_64: 8, FIXED_32: 4}


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A message of (number, value) pairs, in order; a repeated field is there several times."""
    return b"".join(field(number, value) for number, value in fields)


def field(number: int, value: int | str | bytes) -> bytes:
    """One field: a whole number from 0, a text, or the bytes of anything else."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that another byte follows."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def texts(content: bytes, number: int) -> Iterator[bytes]:
    """The values of a field of texts or messages; raises IndexError for what is cut off."""
    place = 0
    while place < len(content):
        key, place = read_varint(content, place)
        kind = key & 7
        if kind == VARINT:
            _, place = read_varint(content, place)
            continue
        size, place = read_varint(content, place) if kind == BYTES else (SIZES[kind], place)
        if key >> 3 == number:
            yield content[place : place + size]
        place += size


def read_varint(content: bytes, place: int) -> tuple[int, int]:
    """The number that begins there, and the place after it."""
    value = shift = 0
    while content[place] & 0x80:
        value |= (content[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
    return value | content[place] << shift, place + 1
