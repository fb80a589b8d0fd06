"""The picture of an extracted brain, docs/brain.png.

    python -m benchmarks.brain_picture

Three slices of the head that the examples have, with the edge of the mask that the built-in
extraction finds in it.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from PIL import Image

from hyperslab.apps.bids import brain
from hyperslab.formats import open_source
from hyperslab.report.slices import slices

ROOT = Path(__file__).parents[1]
HEAD = ROOT / "examples" / "data" / "colin27_ch2_T1w.nii.gz"
PICTURE = ROOT / "docs" / "brain.png"
HEIGHT_PX, BETWEEN_PX = 320, 8


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mask = Path(folder) / "mask.nii.gz"
        found = brain.extract(str(HEAD), brain.BUILTIN)
        brain.save(found, str(HEAD), str(Path(folder) / "brain.nii.gz"), str(mask))
        shown = slices(open_source(str(HEAD)), open_source(str(mask)))
    images = [_scaled(Image.open(io.BytesIO(one.png)).convert("RGB")) for one in shown]
    width = sum(image.width for image in images) + BETWEEN_PX * (len(images) - 1)
    joined = Image.new("RGB", (width, HEIGHT_PX), "white")
    left = 0
    for image in images:
        joined.paste(image, (left, 0))
        left += image.width + BETWEEN_PX
    joined.quantize(48).save(PICTURE, optimize=True)
    print(f"{PICTURE}: brain of {found.volume_ml:.0f} ml, {PICTURE.stat().st_size / 1000:.0f} kB")


def _scaled(image: Image.Image) -> Image.Image:
    size = (round(image.width * HEIGHT_PX / image.height), HEIGHT_PX)
    return image.resize(size, Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main()
