"""Words: what a tier means for a run, in a sentence, and its fields as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.storage.tiers.tier import Tier, share_a_medium
from hyperslab.units import show_bytes, show_count, show_list

NOT_KNOWN = "?"


def kind_words(tier: Tier) -> str:
    """Kind of a tier, with what is below it: `overlay on nvme`."""
    if tier.backing is None:
        return tier.kind
    return f"{tier.kind} on {kind_words(tier.backing)}"


def medium_words(tier: Tier) -> str:
    """The disks or the server that hold the bytes."""
    if tier.backing is not None and tier.backing.device is not None:
        return medium_words(tier.backing)
    if tier.emulated is not None:
        return tier.emulated.kind
    if tier.disks:
        return show_list([_disk(disk.name, disk.model) for disk in tier.disks])
    if tier.kind == "dram":
        return "memory"
    return tier.source or NOT_KNOWN


def _disk(name: str, model: str) -> str:
    if not model:
        return name
    return f"{name} ({model})"


def space_words(tier: Tier) -> str:
    """Free and total space: `1.20 TB of 2.00 TB`."""
    if tier.free_nbytes is None or tier.total_nbytes is None:
        return NOT_KNOWN
    return f"{show_bytes(tier.free_nbytes)} of {show_bytes(tier.total_nbytes)}"


def meaning(tier: Tier, others: Sequence[Tier] = ()) -> str:
    """What a tier means for a run, as one sentence without a full stop; `others` are tiers of the
    same command, some of which may share its device.
    """
    if tier.kind == "unknown" and tier.write_back is None:
        return "; ".join([*_absent(tier), tier.reasons["kind"], *tier.notes])
    parts = [
        *_absent(tier),
        *_emulated(tier),
        _written(tier),
        *_refused(tier),
        *_layout(tier),
        *_company(tier, others),
    ]
    parts += [*_unknown(tier), *tier.notes]
    return "; ".join(parts)


def _absent(tier: Tier) -> Iterator[str]:
    if tier.exists is False:
        yield f"does not exist: what {tier.looked_at} is made of"


def _emulated(tier: Tier) -> Iterator[str]:
    made = tier.emulated
    if made is not None:
        yield f"emulated, {made.kind}: {made.words}, over the files of {made.backing}"


def _written(tier: Tier) -> str:
    """When what is written reaches the medium."""
    why = tier.reasons.get("write_back", "")
    if tier.kind == "dram" and not tier.write_back:
        return "memory: nothing is written behind, and nothing outlives the machine's power"
    if tier.kind == "object":
        return "objects: each is there when its store has said so"
    if tier.write_back is None:
        return f"write-back or not is not known: {why}"
    if not tier.write_back:
        return f"write-through: {why}"
    if tier.dirty is None:
        return f"write-back: {tier.reasons.get('dirty') or why}"
    if not tier.dirty.free_nbytes:
        return "write-back, but the kernel's limit of dirty pages is reached: writers wait for it"
    return (
        f"write-back: as fast as memory for {show_bytes(tier.dirty.free_nbytes)}"
        f" (limit {show_bytes(tier.dirty.limit_nbytes)}), then at the pace of the device"
    )


def _refused(tier: Tier) -> Iterator[str]:
    if tier.read_only:
        yield "read-only"
    elif tier.writable is False:
        yield "this user may not write there"
    if tier.free_inodes == 0:
        yield "no file can be made any more: there is no inode left"


def _layout(tier: Tier) -> Iterator[str]:
    stripe = tier.stripe
    if stripe is None:
        if "stripe" in tier.reasons:
            yield f"striped in a way that is not known: {tier.reasons['stripe']}"
        return
    pool = ""
    if stripe.pool:
        pool = f" of pool {stripe.pool}"
    if stripe.parts:
        counts = [f"{_targets(count)} from {show_bytes(first)} on" for first, count in stripe.parts]
        yield f"striped over {show_list(counts)}{pool}, {show_bytes(stripe.nbytes)} a stripe"
    else:
        yield f"striped over {_targets(stripe.count)}{pool}, {show_bytes(stripe.nbytes)} a stripe"


def _targets(count: int | None) -> str:
    if count == -1:
        return "all targets"
    if not count:
        return "the metadata server"
    return show_count(count, "target")


def _company(tier: Tier, others: Sequence[Tier]) -> Iterator[str]:
    """Who else uses the medium."""
    if tier.shared:
        yield "other hosts see the same files"
    own_host = [other for other in others if other.host == tier.host and other is not tier]
    same = [other.path for other in own_host if share_a_medium(tier, other)]
    if same:
        yield f"on the same device as {show_list(list(dict.fromkeys(same)))}"


def _unknown(tier: Tier) -> Iterator[str]:
    """Why what a run needs to know is not known."""
    if tier.kind in ("unknown", "block") and "kind" in tier.reasons:
        yield tier.reasons["kind"]
    elif tier.device is None and "device" in tier.reasons:
        yield tier.reasons["device"]
