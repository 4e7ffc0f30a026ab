"""Damage for honest files, as Hypothesis draws it: bytes, values of JSON, arrays, members of archives."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

DEEP = 100_000
NASTY: list[Any] = [
    *(None, True, False, 0, -1, 1, 3, 2**31, 2**70, -(2**70), 10**400, 0.5, -0.0, 1e39, 1e308, float("nan")),
    *(float("inf"), float("-inf"), "", "nan", "1", "../../x", "/etc/passwd", "os:abort", "a\0b", "x" * 2000, "\ud800"),
    *([], {}, [1], [[]], [None], ["a"], [1, 2, 3], [float("nan")], {"a": 1}, {"": {}}, [[1, 2], [3]]),
]


@st.composite
def damaged(draw: st.DrawFn, name: str, content: bytes) -> bytes:
    """The content of a file of that name, with something wrong, or (seldom) nothing."""
    suffix = Path(name).suffix
    structured = {".json": _json, ".jsonl": _lines, ".npz": _npz, ".pt": _members, ".csv": _csv}.get(suffix)
    if structured is not None and draw(st.integers(0, 3)):
        return draw(structured(content))
    return draw(_bytes(content))


@st.composite
def _bytes(draw: st.DrawFn, content: bytes) -> bytes:
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        how = draw(st.sampled_from(["flip", "set", "cut", "insert", "remove", "repeat"]))
        if how == "flip" and found:
            found[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "set" and found:
            found[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del found[at:]
        elif how == "insert":
            found[at:at] = draw(st.binary(max_size=8))
        elif how == "remove":
            del found[at : at + draw(st.integers(1, 64))]
        else:
            found[at:at] = found[at : at + draw(st.integers(1, 64))]
    return bytes(found)


@st.composite
def _json(draw: st.DrawFn, content: bytes) -> bytes:
    if not draw(st.integers(0, 30)):
        return b"[" * DEEP + b"]" * DEEP
    value = json.loads(content)
    for _ in range(draw(st.integers(1, 3))):
        value = _changed(draw, value)
    return json.dumps(value).encode("utf-8", "replace")


@st.composite
def _lines(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    how = draw(st.sampled_from(["change", "change", "change", "remove", "repeat", "swap"]))
    if how == "change":
        lines[at] = draw(_json(lines[at]))
    elif how == "remove":
        del lines[at]
    elif how == "repeat":
        lines.insert(at, lines[at])
    else:
        lines[0], lines[at] = lines[at], lines[0]
    return b"\n".join(lines) + b"\n" * draw(st.integers(0, 2))


def _changed(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with one part, anywhere in it, replaced, removed or added."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 5)):
        keys: Any = sorted(value) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        value = dict(value) if isinstance(value, dict) else list(value)
        how = draw(st.sampled_from(["inside", "inside", "inside", "remove", "add"]))
        if how == "inside":
            value[key] = _changed(draw, value[key])
        elif how == "remove":
            del value[key]
        elif isinstance(value, dict):
            value[draw(st.sampled_from(["format", "x", "", "name"]))] = draw(st.sampled_from(NASTY))
        else:
            value.insert(key, draw(st.sampled_from([*NASTY, value[key]])))
        return value
    return draw(st.sampled_from(NASTY))


@st.composite
def _npz(draw: st.DrawFn, content: bytes) -> bytes:
    if draw(st.booleans()):
        return draw(_members(content))
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    how = draw(st.sampled_from(["type", "shape", "rows", "value", "missing", "scalar", "empty"]))
    if how == "type":
        kinds = ["f8", "f2", ">f4", "i1", "u8", "c8", "U5", "S3", "?", "M8[s]", "g", "V4", "f4", "i8"]
        with np.errstate(all="ignore"):
            arrays[name] = array.astype("f8").astype("f4").astype(draw(st.sampled_from(kinds)), casting="unsafe") if (
                array.dtype.kind in "fiu"
            ) else array  # fmt: skip
    elif how == "shape":
        arrays[name] = draw(st.sampled_from([array[..., None], array.reshape(-1), array[None], array.T]))
    elif how == "rows":
        arrays[name] = array[: draw(st.integers(0, len(array)))]
    elif how == "value" and array.size and array.dtype.kind in "fi":
        worst = [np.nan, np.inf, -1e38] if array.dtype.kind == "f" else [-1, 2**31, 2**62]
        changed = array.copy()
        changed.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(worst))
        arrays[name] = changed
    elif how == "missing":
        del arrays[name]
    else:
        arrays[name] = np.array(3.0) if how == "scalar" else array[:0]
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    return out.getvalue()


@st.composite
def _members(draw: st.DrawFn, content: bytes) -> bytes:
    """One member damaged, and the archive written anew around it, so that its checksums fit."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(out, "w") as fresh:
        names = archive.namelist()
        chosen = draw(st.sampled_from([*names, *[name for name in names if name.endswith("data.pkl")] * len(names)]))
        for name in names:
            member = archive.read(name)
            if name == chosen:
                member = draw(_bytes(member))
            fresh.writestr(name, member)
    return out.getvalue()


@st.composite
def _csv(draw: st.DrawFn, content: bytes) -> bytes:
    rows = [line.split(",") for line in content.decode().splitlines()]
    row = draw(st.sampled_from(rows))
    row[draw(st.integers(0, len(row) - 1))] = str(draw(st.sampled_from([*NASTY, '"', "\0", "x" * 200_000])))
    return "\n".join(map(",".join, rows)).encode("utf-8", "replace")
