"""The feature matrix of Zarr: arrays of both versions, all codecs, and shards. docs/formats.md
shows it.
"""

from __future__ import annotations

import itertools
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import xarray
import zarr
import zarr.codecs.numcodecs as more

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.formats.matrix import Matrix, Row
from tests.formats.zarr_made import CODECS, edit, make, named, values

TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?"]
WHY = "each chunk is a file"
XARRAY = "as xarray's"


def rows() -> list[Row]:
    """Every row; those of a group follow one another."""
    return [
        *layouts(),
        *shards(),
        *codecs(),
        *numbers(),
        *fills(),
        *shapes(),
        *groups(),
        *packing(),
        *attributes(),
        *refused(),
    ]


def row(group: str, name: str, makes: Callable[[Path], Any], **options: Any) -> Row:
    return Row(group, name, makes, "zarr", WHY, **options)


def one(**options: Any) -> Callable[[Path], Any]:
    return partial(_make, options)


def _make(options: dict[str, Any], path: Path) -> None:
    make(path, **options)


def layouts() -> Iterator[Row]:
    group = "Layout"
    for version in (2, 3):
        of = f"version {version}"
        kinds: dict[str, dict[str, Any]] = {
            "chunks, some beyond the edge": {},
            "one chunk": {"chunks": (5, 6, 7)},
            "chunks larger than the array": {"chunks": (9, 9, 9)},
            "never written": {"parts": ()},
            "partly written": {"parts": (np.s_[:2, :, 3:],), "fill_value": 7},
            "big-endian": (
                {"dtype": ">i2"}
                if version == 2
                else {"serializer": zarr.codecs.BytesCodec(endian="big")}
            ),
        }
        for name, options in kinds.items():
            yield row(group, f"{name} ({of})", one(version=version, **options))
    yield row(group, "order F (version 2)", one(version=2, order="F"))
    yield row(
        group,
        "order F, with a filter (version 2)",
        one(version=2, order="F", filters=numcodecs.Delta("i2")),
    )
    for order in itertools.permutations(range(3)):
        filters = zarr.codecs.TransposeCodec(order=order)
        yield row(
            group,
            f"transposed {order} (version 3)",
            one(filters=filters),
            shown="transposed (version 3)",
        )
    twice = [
        zarr.codecs.TransposeCodec(order=(1, 2, 0)),
        zarr.codecs.TransposeCodec(order=(0, 2, 1)),
    ]
    yield row(group, "transposed twice (version 3)", one(filters=twice))
    for separator, version, kind in itertools.product("./", (2, 3), ("v2", "default")):
        if version == 3 or kind == "v2":
            named = {"name": kind, "separator": separator}
            name = f"chunk files named by '{separator}', as {kind} (version {version})"
            yield row(group, name, one(version=version, chunk_key_encoding=named))
    yield row(group, "documents of both versions: 3 counts", _both)


def _both(path: Path) -> None:
    make(path, version=2, dtype="f4", shape=(3,), chunks=(2,))
    make(path)


def shards() -> Iterator[Row]:
    group = "Shards"
    shard: dict[str, Any] = {"shards": (4, 6, 8)}
    for name, options in {
        "whole": shard,
        "larger than the array": {"shards": (8, 12, 12)},
        "never written": {**shard, "parts": ()},
        "partly written": {**shard, "parts": (np.s_[1:3, :2, 5:],), "fill_value": -1},
        "index at the start": {"shards": {"shape": (4, 6, 8), "index_location": "start"}},
        "of chunks in order F": {**shard, "filters": zarr.codecs.TransposeCodec(order=(2, 1, 0))},
        "compressed once more": {
            "chunks": (4, 6, 8),
            "serializer": _sharding(),
            "compressors": CODECS["gzip"],
        },
        "transposed as a whole": {
            "chunks": (6, 6, 8),
            "serializer": _sharding(),
            "filters": _turned(),
        },
        "of shards": {
            "chunks": (4, 6, 8),
            "serializer": _sharding(zarr.codecs.ShardingCodec(chunk_shape=(1, 3, 2))),
        },
    }.items():
        yield row(group, name, one(**options))
    for name, compressors in {"not compressed": None, **CODECS}.items():
        yield row(group, f"of chunks: {name}", one(**shard, compressors=compressors))


def _sharding(serializer: Any = None) -> Any:
    return zarr.codecs.ShardingCodec(
        chunk_shape=(2, 3, 4), codecs=[serializer or zarr.codecs.BytesCodec()]
    )


def _turned() -> Any:
    return zarr.codecs.TransposeCodec(order=(1, 0, 2))


def codecs() -> Iterator[Row]:
    group = "Codecs"
    for name, compressors in {"none": None, **CODECS}.items():
        yield row(group, f"{name} (version 3)", one(compressors=compressors))
    blosc: Any = zarr.codecs.BloscCodec
    for inner, shuffle in itertools.product(
        ("lz4", "lz4hc", "zlib", "zstd", "blosclz"), ("shuffle", "bitshuffle")
    ):
        makes = one(compressors=blosc(cname=inner, shuffle=shuffle))
        yield row(
            group, f"blosc with {inner}, {shuffle} (version 3)", makes, shown="blosc (version 3)"
        )
    several = [CODECS["gzip"], CODECS["zstd"], CODECS["crc32c"]]
    yield row(group, "gzip, zstd, crc32c (version 3)", one(compressors=several))
    for name, options in _others().items():
        yield row(group, f"{name} (version 3)", one(**options))
    for codec in (
        numcodecs.Zlib(1),
        numcodecs.GZip(1),
        numcodecs.BZ2(1),
        numcodecs.LZMA(),
        numcodecs.LZ4(),
        numcodecs.Zstd(1),
        numcodecs.Blosc("zstd"),
        None,
    ):
        yield row(
            group,
            f"{codec.codec_id if codec else 'none'} (version 2)",
            one(version=2, compressors=codec),
        )
    for name, (dtype, filters) in _filters().items():
        yield row(group, f"{name}, zlib (version 2)", one(version=2, dtype=dtype, filters=filters))


def _others() -> dict[str, dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packers = {
            "bz2": more.BZ2(level=1),
            "lzma": more.LZMA(),
            "lz4": more.LZ4(),
            "zlib": more.Zlib(level=1),
        }
        checks = {"fletcher32": more.Fletcher32(), "adler32": more.Adler32(), "crc32": more.CRC32()}
        shuffle = {"shuffle": more.Shuffle(elementsize=2)}
        filters = {"delta": more.Delta(dtype="<i2")}
    found = {
        f"numcodecs.{name}": {"compressors": codec}
        for name, codec in {**packers, **checks, **shuffle}.items()
    }
    return found | {f"numcodecs.{name}": {"filters": codec} for name, codec in filters.items()}


def _filters() -> dict[str, tuple[str, Any]]:
    return {
        "delta": ("<i2", numcodecs.Delta("<i2")),
        "shuffle": ("<f4", numcodecs.Shuffle(4)),
        "bitround": ("<f4", numcodecs.BitRound(10)),
        "quantize": ("<f8", numcodecs.Quantize(3, "<f8")),
        "fixedscaleoffset": ("<f8", numcodecs.FixedScaleOffset(0, 100, "<f8", "<i4")),
        "packbits": ("|b1", numcodecs.PackBits()),
        "crc32": ("<i2", numcodecs.CRC32()),
        "fletcher32": ("<i2", numcodecs.Fletcher32()),
        "delta, shuffle": ("<i4", [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)]),
    }


def numbers() -> Iterator[Row]:
    group = "Numbers"
    for dtype in TYPES:
        plain = np.dtype(dtype)
        orders = ("little", "big") if plain.itemsize > 1 else ("",)
        for order in orders:
            name = f"{plain.name}{', ' * bool(order)}{order}{'-endian' * bool(order)}"
            turned = plain.newbyteorder(">" if order == "big" else "<")
            yield row(
                group,
                f"{name} (version 2)",
                one(version=2, dtype=turned),
                shown=f"{name} (versions 2, 3)",
            )
            serializer = {"serializer": zarr.codecs.BytesCodec(endian=order)} if order else {}
            yield row(
                group,
                f"{name} (version 3)",
                one(dtype=plain, **serializer),
                shown=f"{name} (versions 2, 3)",
            )


def fills() -> Iterator[Row]:
    group = "Fill values of chunks that are not there"
    for dtype, fill in {
        "i2": -3,
        "u8": 2**64 - 1,
        "i8": -(2**63),
        "f2": 0.5,
        "f4": np.nan,
        "f8": -np.inf,
        "c8": 1 - 2j,
        "?": True,
    }.items():
        for version in (2, 3):
            filled = one(version=version, dtype=dtype, fill_value=fill, parts=(np.s_[:2],))
            name = f"{fill} of {np.dtype(dtype).name}"
            yield row(group, f"{name} (version {version})", filled, shown=f"{name} (versions 2, 3)")
    yield row(group, "none: 0 (version 2)", one(version=2, fill_value=None, parts=(np.s_[:2],)))
    payload = partial(_edited, {"dtype": "f4", "parts": ()}, {"fill_value": "0x7fc00123"})
    yield row(group, "NaN with a payload (version 3)", payload)


def _edited(options: dict[str, Any], said: dict[str, Any], path: Path) -> None:
    make(path, **options)
    edit(path, "zarr.json" if options.get("version", 3) == 3 else ".zarray", **said)


def shapes() -> Iterator[Row]:
    group = "Shapes"
    for version in (2, 3):
        of = f"version {version}"
        yield row(group, f"a single value ({of})", one(version=version, shape=(), chunks=()))
        yield row(group, f"no elements ({of})", one(version=version, shape=(3, 0), chunks=(2, 1)))
        for ndim in (1, 4, 32):
            shape = (3, 2, 3, 2, 3, 2, 3, 2)[:ndim] + (1,) * (ndim - 8)
            many = one(
                version=version, shape=shape, chunks=(2, 1) * (ndim // 2) + (2,) * (ndim % 2)
            )
            yield row(group, f"{ndim} dimensions ({of})", many, shown=f"1 to 32 dimensions ({of})")


def groups() -> Iterator[Row]:
    group = "Groups"
    for version in (2, 3):
        names = ("v", "a/v", "a/b/v")
        for consolidated in (False, True):
            nested = partial(_nested, version, names, consolidated)
            name = f"arrays in groups{', consolidated' * consolidated} (version {version})"
            yield row(group, name, nested, arrays=names)
    yield row(group, "named in the path", _shifted, arrays=("",), suffix=".zarr/a/b")


def _nested(version: int, names: tuple[str, ...], consolidated: bool, path: Path) -> None:
    for name in names:
        make(path, name=name, version=version, dtype="f4" if "a" in name else "i2")
    if consolidated:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(path)


def _shifted(path: Path) -> None:
    make(path.parents[1], name="a/b")


MASKS: dict[str, dict[str, Any]] = {
    "": {},
    "_FillValue": {"_FillValue": 5},
    "missing_value": {"missing_value": 3},
    "_FillValue, missing_value": {"_FillValue": 5, "missing_value": 3},
}
PACKINGS: dict[str, dict[str, Any]] = {
    "": {},
    "scale_factor": {"scale_factor": 0.1},
    "add_offset": {"add_offset": -2.5},
    "scale_factor, add_offset": {"scale_factor": -1e-3, "add_offset": 273.15},
}
PACKED_TYPES = ("u1", "i2", "i8", "f4")


def packing() -> Iterator[Row]:
    """Every way to mask with every way to pack, of every type, as xarray writes it. Every two of
    mask, packing and version meet in one half of them; the others repeat how they meet.
    """
    every = itertools.product(enumerate(MASKS.items()), enumerate(PACKINGS.items()))
    for (place, (mask, masked)), (turn, (packing, packed)) in every:
        name = "; ".join(part for part in (mask, packing) if part) or "none"
        for version in (2, 3):
            real = "float64, NaN where masked" if packing and mask else "float64" if packing else ""
            real = "floating, NaN where masked" if mask and not packing else real
            makes = partial(_packed, version, {**masked, **packed})
            options: dict[str, Any] = {
                "arrays": PACKED_TYPES,
                "expected": by_xarray_at_once,
                "shown": name,
                "real": real,
            }
            if (place + turn + version) % 2:
                options["repeats"] = "a mask and a packing, in a store of another version"
            yield row("Packing and missing values", f"{name} (version {version})", makes, **options)


def _packed(version: int, said: dict[str, Any], path: Path) -> None:
    for dtype in PACKED_TYPES:
        named(path, dtype, version, dtype, said)


def attributes() -> Iterator[Row]:
    group = "Other attributes"
    for name, dtype, said, real in (
        ("_Unsigned", "i2", {"_Unsigned": "true"}, "uint16"),
        (
            "_Unsigned, packed",
            "i1",
            {"_Unsigned": "true", "scale_factor": 0.5, "add_offset": 1.0},
            "float64",
        ),
        ("scale_factor that is whole", "i2", {"scale_factor": 2}, "int64"),
        ("_FillValue NaN", "f4", {"_FillValue": np.nan}, ""),
        ("missing_value that is NaN", "f8", {"missing_value": float("nan")}, ""),
    ):
        for version in (2, 3):
            makes = partial(_variable, version, dtype, said)
            options: dict[str, Any] = {
                "real": real,
                "arrays": ("v",),
                "expected": by_xarray_at_once,
                "shown": name,
            }
            yield row(group, f"{name} (version {version})", makes, **options)
    for version in (2, 3):
        valid = partial(_variable, version, "i2", {"valid_range": [0, 5]})
        yield row(
            group,
            f"valid_range (version {version})",
            valid,
            real="float32, NaN beyond (xarray ignores it)",
            arrays=("v",),
            expected=_within,
            shown="valid_range",
        )
        text = partial(_variable, version, "i2", {"scale_factor": "0.1"})
        yield row(
            group,
            f"scale_factor that is text (version {version})",
            text,
            arrays=("v",),
            unscalable="scale_factor is not a number",
            shown="scale_factor that is text",
        )
        named = partial(_written_by_xarray, version)
        yield row(
            group,
            f"written by xarray, packed (version {version})",
            named,
            arrays=("v",),
            expected=by_xarray,
            real="float64, NaN where masked",
            shown="written by xarray, packed",
        )
    plain = one(version=2, fill_value=values().flat[0])
    yield row(
        group,
        "fill value of version 2 without names of axes, by which xarray is known: no missing value",
        plain,
    )
    filled = partial(_make, {"dimension_names": ("z", "y", "x"), "fill_value": values().flat[0]})
    yield row(
        group, "fill value of version 3 without an attribute _FillValue: no missing value", filled
    )


def _variable(version: int, dtype: str, said: dict[str, Any], path: Path) -> None:
    named(path, "v", version, dtype, said)


def _written_by_xarray(version: int, path: Path) -> None:
    found = np.where(
        np.arange(42).reshape(6, 7) % 5 == 0, np.nan, np.linspace(-3, 4, 42).reshape(6, 7)
    )
    packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.5, "_FillValue": -9999}
    dataset = xarray.Dataset({"v": (("y", "x"), found)})
    dataset.to_zarr(path, zarr_format=version, encoding={"v": packed}, consolidated=False)


def _within(url: str, values: Values) -> Array:
    stored = by_zarr(url, "stored")
    return (
        stored
        if values == "stored"
        else np.where((stored < 0) | (stored > 5), np.nan, stored.astype("f4"))
    )


def refused() -> Iterator[Row]:
    group = "Refused"
    for name, makes, why in (
        ("text of any length", partial(_of_type, str, 3), "are string, not numbers"),
        ("text of fixed length (version 2)", partial(_of_type, "S4", 2), "are |S4, not numbers"),
        ("times (version 2)", partial(_of_type, "M8[ns]", 2), "are <M8[ns], not numbers"),
        ("compound (version 2)", partial(_of_type, [("a", "i2"), ("b", "f4")], 2), "not numbers"),
        (
            "raw bits",
            partial(_edited, {}, {"data_type": "r16", "fill_value": [0, 0]}),
            "are r16, not numbers",
        ),
        (
            "codec that is not known",
            partial(_edited, {}, {"codecs": [{"name": "zfp"}]}),
            "zarr cannot understand it",
        ),
        ("codec that runs code (version 2)", _pickled, "its codec pickle runs code"),
        (
            "storage transformers",
            partial(_edited, {}, {"storage_transformers": [{"name": "x"}]}),
            "transformers",
        ),
        (
            "chunks of several sizes",
            partial(_edited, {}, {"chunk_grid": _RECTILINEAR}),
            "cannot understand it",
        ),
        ("a document that is not JSON", _not_json, "is not JSON"),
        ("33 dimensions", partial(_edited, {}, {"shape": [1] * 33}), "has 33 axes"),
        (
            "chunk files named otherwise than the document says",
            _misnamed,
            "its chunks are named like",
        ),
    ):
        yield Row(group, name, makes, "refused", why)
    yield Row(
        group, "a store in a ZIP file", _zipped, "refused", "is a ZIP file", suffix=".zarr.zip"
    )


_RECTILINEAR = {
    "name": "rectilinear",
    "configuration": {"kind": "inline", "chunk_shapes": [[2, 3], 3, 4]},
}


def _of_type(dtype: Any, version: int, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_array(store=path, shape=(5,), chunks=(2,), dtype=dtype, zarr_format=version)  # type: ignore[arg-type]


def _pickled(path: Path) -> None:
    make(path, version=2)
    edit(path, ".zarray", filters=[{"id": "pickle", "protocol": 5}])


def _not_json(path: Path) -> None:
    make(path)
    (path / "zarr.json").write_text((path / "zarr.json").read_text()[:-3])


def _misnamed(path: Path) -> None:
    make(path, version=2, chunk_key_encoding={"name": "v2", "separator": "/"})
    edit(path, ".zarray", dimension_separator=".")


def _zipped(path: Path) -> None:
    folder = make(path.with_suffix(".folder"))
    with zipfile.ZipFile(path, "w") as file:
        for found in folder.rglob("*"):
            file.write(found, found.relative_to(folder))
    shutil.rmtree(folder)


def opened(url: str) -> Any:
    """An array as zarr-python opens it."""
    path, name = formats.split_url(url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_array(path, path=name, mode="r")


def by_zarr(url: str, values: Values) -> Array:
    """All values as zarr-python reads them."""
    return np.asarray(opened(url)[...])


def by_xarray(url: str, values: Values) -> Array:
    """All values as xarray reads them, masked and scaled if they are to be real."""
    return _by_xarray(url, values, _dataset)


def by_xarray_at_once(url: str, values: Values) -> Array:
    """The same, of stores that do not change: one that holds several arrays is opened once."""
    return _by_xarray(url, values, _kept)


def _by_xarray(url: str, values: Values, dataset: Callable[..., xarray.Dataset]) -> Array:
    path, name = formats.split_url(url)
    folder, _, last = name.strip("/").rpartition("/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of several missing values, and of invalid ones in casts
        return np.asarray(dataset(path, folder, values)[last].values)


def _dataset(path: str, folder: str, values: Values) -> xarray.Dataset:
    found: xarray.Dataset = xarray.open_zarr(
        path,
        group=folder or None,
        mask_and_scale=values == "real",
        decode_times=False,
        consolidated=False,
        chunks=None,
    )
    return found


_kept = lru_cache(maxsize=4)(_dataset)


def dims(url: str) -> tuple[str, ...]:
    """Names of the axes, by zarr-python and the attribute of xarray."""
    found = opened(url)
    names = getattr(found.metadata, "dimension_names", None) or found.attrs.get("_ARRAY_DIMENSIONS")
    return tuple(names or (f"dim_{axis}" for axis in range(found.ndim)))


ZARR = Matrix("Zarr", rows, ".zarr", "", by_zarr, dims=dims)
