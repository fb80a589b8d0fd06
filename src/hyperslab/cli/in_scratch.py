"""`hyperslab run --scratch`: the same command, with temporary files in scratch of its own."""

from __future__ import annotations

from hyperslab.cli.line import line_without
from hyperslab.cli.telling import mention
from hyperslab.driver.options import Options
from hyperslab.engines.environment import itself
from hyperslab.engines.facts import facts_of
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline

FLAG = "--scratch"


def run_with_scratch(text: str, pipeline: Pipeline, options: Options, quiet: bool) -> int:
    """Run this command again, whose engine leaves what it spills and shuffles in scratch. Returns
    its exit status.
    """
    from hyperslab.apps.scratch import run_in_scratch, wish_for_run

    if options.connect or facts_of(options.engine).batch_system:
        raise UsageError(
            f"{FLAG} is for workers of this host: leave it out, or leave out --connect and take an"
            " --engine that runs here"
        )
    sources = [source for each in pipeline.inputs.values() for source in each.sources]
    wish = wish_for_run(text, sum(source.nbytes for source in sources))
    ended = run_in_scratch(wish, itself(line_without(FLAG)))
    for note in ended.notes:
        mention(f"warning    {note}", quiet=quiet)
    return ended.status
