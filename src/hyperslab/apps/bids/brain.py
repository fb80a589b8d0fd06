"""The brain of one image, as a program: `python -m hyperslab.apps.bids.brain IN OUT`.

FSL's `bet` extracts it where that is on PATH, else what is built in: a demonstration, not for
science. Exit status 0 where a brain of a plausible volume was found, 1 where not, 2 for usage.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hyperslab import formats
from hyperslab.apps.bids import content, fsl
from hyperslab.apps.bids.extraction import FRACTION, brain_mask
from hyperslab.apps.bids.surface import Bools
from hyperslab.arrays import Array
from hyperslab.arrays.affines import voxel_sizes
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling
from hyperslab.blocks import reading, writing
from hyperslab.errors import FormatError, HyperslabError, UsageError
from hyperslab.report.slices import montage
from hyperslab.storage.whole import appearing, replace_text

LEAST_ML, MOST_ML = 600.0, 2500.0
"Volumes between which a brain's lies, millilitres."
AUTO, FSL, BUILTIN = "auto", "fsl", "builtin"
EXTRACTORS = (AUTO, FSL, BUILTIN)
BUILTIN_NAME = "hyperslab's built-in brain extraction (a demonstration, not for science)"
ENDINGS = (".nii.gz", ".nii")


@dataclass(frozen=True, slots=True)
class Brain:
    """A brain that was found in an image."""

    mask: Bools
    "Shape of the image."
    volume_ml: float
    extractor: str
    "What has found it, with its version where that is known."


def extract(path: str, extractor: str = AUTO, fraction: float = FRACTION) -> Brain:
    """Find the brain in an image of a head, without judging its volume. Raises HyperslabError."""
    source = _head(path)
    which = chosen(extractor)
    if which == FSL:
        mask = fsl.brain_mask(path, fraction)
        name = fsl.described()
    else:
        mask = _built_in(source, fraction)
        name = BUILTIN_NAME
    volume_mm3 = np.count_nonzero(mask) * float(np.prod(_sizes_mm(source)))
    return Brain(mask.reshape(source.shape), volume_mm3 / 1000, name)


def require_plausible(path: str, brain: Brain) -> None:
    """Raise FormatError for a volume that no brain has."""
    if not LEAST_ML <= brain.volume_ml <= MOST_ML:
        raise FormatError(
            f"{path}: {brain.volume_ml:.0f} ml were found, and a brain has {LEAST_ML:.0f} to"
            f" {MOST_ML:.0f} ml: look whether this is the image of a whole head"
        )


def chosen(extractor: str) -> str:
    """FSL or BUILTIN, by what is here. Raises UsageError where FSL is asked for and is not."""
    is_here = shutil.which(fsl.PROGRAM) is not None
    if extractor == FSL and not is_here:
        raise UsageError(
            f"--brain-extractor fsl: there is no {fsl.PROGRAM} on PATH; install FSL, or take"
            " --brain-extractor builtin"
        )
    if extractor == AUTO and is_here:
        return FSL
    return BUILTIN if extractor == AUTO else extractor


def generated_by(which: str) -> tuple[dict[str, str], ...]:
    """What makes the images, as a dataset's description lists it."""
    from hyperslab import __version__

    if which == FSL:
        return ({"Name": fsl.described()},)
    return ({"Name": BUILTIN_NAME, "Version": __version__},)


def save(brain: Brain, path: str, out: str, mask: str = "") -> None:
    """Write the image without all that is no brain, and the mask: 1 inside, 0 outside. Each appears
    when it is whole.
    """
    source = formats.open_source(path)
    writer = formats.module("nifti")
    values, scaling = _within(source, brain.mask)
    writing.write(writer.sink(out, source.shape, values.dtype, source.header, scaling), values)
    if mask:
        inner = brain.mask.astype(np.uint8)
        writing.write(writer.sink(mask, source.shape, inner.dtype, source.header), inner)


def save_picture(path: str, mask: str, picture: str) -> None:
    """Write three slices of the image with the edge of its mask as a PNG file."""
    data = montage(formats.open_source(path), formats.open_source(mask))
    if not data:
        return
    final = Path(picture)
    with appearing(final, final.with_name(f".{final.name}.partial")) as temporary:
        temporary.write_bytes(data)


def save_sidecars(brain: Brain, out: str, mask: str, origin: str) -> None:
    """Write the JSON files of BIDS beside both images; `origin` is the BIDS URI of the head."""
    about = {"Sources": [origin], "Extractor": brain.extractor}
    _save_json(out, {"SkullStripped": True, **about})
    _save_json(mask, {"Type": "Brain", "VolumeMillilitres": round(brain.volume_ml, 3), **about})


def sidecar_of(image: str) -> str:
    """Path of the JSON file beside an image."""
    for ending in ENDINGS:
        if image.endswith(ending):
            return image.removesuffix(ending) + ".json"
    raise UsageError(f"{image}: give a name that ends in {' or '.join(ENDINGS)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Extract the brain of one image; returns the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.origin and not given.mask:
        parser.error("--origin needs --mask: the volume is written to the same folder")
    if given.picture and not given.mask:
        parser.error("--picture needs --mask, whose edge it shows")
    try:
        for name in filter(None, (given.out, given.mask)):
            sidecar_of(name)
        for name in filter(None, (given.out, given.mask, given.picture)):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
        brain = extract(given.image, given.brain_extractor, given.fraction)
        require_plausible(given.image, brain)
        print(f"{given.image}: brain of {brain.volume_ml:.0f} ml, by {brain.extractor}", flush=True)
        save(brain, given.image, given.out, given.mask)
        if given.picture:
            save_picture(given.image, given.mask, given.picture)
        if given.origin:
            save_sidecars(brain, given.out, given.mask, given.origin)
    except UsageError as error:
        print(f"brain: {error}", file=sys.stderr)
        return 2
    except HyperslabError as error:
        print(f"brain: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"brain: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hyperslab.apps.bids.brain",
        description="Extract the brain from a T1-weighted image of a head: by FSL's bet where it is"
        " on PATH, else by what is built in, which is a demonstration, not for science.",
    )
    parser.add_argument("image", metavar="IN", help="image of a head")
    parser.add_argument("out", metavar="OUT", help="image of the brain, .nii or .nii.gz")
    parser.add_argument("--mask", default="", help="also write the mask, .nii or .nii.gz")
    parser.add_argument("--picture", default="", help="also write slices with its edge, .png")
    parser.add_argument("--brain-extractor", choices=EXTRACTORS, default=AUTO)
    parser.add_argument(
        "--fraction", type=_fraction, default=FRACTION, help="0 to 1, lower makes a larger brain"
    )
    parser.add_argument(
        "--origin", default="", help="write the JSON files of BIDS, which name this as the source"
    )
    return parser


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise ValueError(text)
    return value


def _head(path: str) -> ArraySource:
    """The image, which has to be one volume. Raises FormatError, UsageError."""
    fault = content.fault_of(path)
    if fault:
        raise FormatError(f"{path} {fault}")
    source = formats.open_source(path)
    is_volume = source.ndim >= 3 and set(source.shape[3:]) <= {1} and source.size > 0
    if not is_volume or source.stored.kind not in "biuf" or source.header.affine is None:
        raise FormatError(
            f"{path}: a head is one volume of numbers, and this has the shape"
            f" {'x'.join(map(str, source.shape))} of {source.stored}; give a T1-weighted image"
        )
    return source


def _built_in(source: ArraySource, fraction: float) -> Bools:
    affine = np.asarray(source.header.affine_mm, np.float64)
    values = reading.read(source, Hyperslab.full(source.shape), values="real")
    image = np.nan_to_num(values.reshape(source.shape[:3]).astype(np.float32, copy=False))
    try:
        return brain_mask(image, _sizes_mm(source), affine, fraction)
    except FormatError as error:
        raise FormatError(f"{source.url}: {error}") from error


def _sizes_mm(source: ArraySource) -> Array:
    return voxel_sizes(np.asarray(source.header.affine_mm, np.float64))


def _within(source: ArraySource, mask: Bools) -> tuple[Array, Scaling | None]:
    """Values of the image within the mask, 0 outside, and their scaling: those in the file, unless
    their 0 means something else.
    """
    whole = Hyperslab.full(source.shape)
    if source.scaling is not None and np.any(source.scaling.inter):
        values = reading.read(source, whole, values="real").astype(np.float32, copy=False)
        return np.where(mask, values, np.float32(0)), None
    values = reading.read(source, whole, values="stored")
    return np.where(mask, values, values.dtype.type(0)), source.scaling


def _save_json(image: str, said: object) -> None:
    replace_text(Path(sidecar_of(image)), json.dumps(said, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
