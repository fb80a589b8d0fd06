"""Links that the app of a group level leaves in its folder, which it knows as /out."""

from __future__ import annotations

import os
from pathlib import Path

from hyperslab.apps.bids.containers.links import settle_links


def test_links_lead_to_what_is_meant(tmp_path: Path) -> None:
    """Of another link that leads out of the folder, nothing is left either."""
    made = tmp_path / "site"
    (made / "inner").mkdir(parents=True)
    (made / "table").write_text("all")
    (made / "beside").symlink_to("table")
    ends = {
        "inner/one": "/out/table",
        "two": "/out/inner/one",
        "folder": "/out/inner",
        "image": "/usr/share/x",
        "three": "/out/image",
        "gone": "/out/sub-1/made.txt",
        "near": "/outside",
    }
    for name, target in ends.items():
        (made / name).symlink_to(target)
    assert settle_links(made) == ["gone", "image", "near", "three"]
    assert (made / "inner/one").read_text() == "all"
    assert (made / "two").read_text() == "all"
    assert os.readlink(made / "folder") == "inner"
    assert os.readlink(made / "beside") == "table"
    assert sorted(os.listdir(made)) == ["beside", "folder", "inner", "table", "two"]
