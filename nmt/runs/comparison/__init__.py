"""Comparison of systems: runs and ensembles on the same test sets, with confidence intervals and significance.

The steps: systems (opened and checked before any work), test_sets (what they are scored on), measures (one system at
a time), results (all systems together), tables, and report.
"""

from collections.abc import Sequence

from nmt.runs.comparison.measures import measure_system
from nmt.runs.comparison.options import CompareOptions
from nmt.runs.comparison.report import write_report
from nmt.runs.comparison.results import compare_measures
from nmt.runs.comparison.systems import open_systems
from nmt.runs.comparison.test_sets import choose_test_sets, rows_to_draw
from nmt.errors import UserError
from nmt.evaluate.significance import check_samples
from nmt.data.files import report_write_errors
from nmt.runs.results import check_writable

__all__ = ["CompareOptions", "compare_runs"]


def compare_runs(names: Sequence[str], options: CompareOptions) -> str:
    """Score all runs on the same sets, write the report to `options.output`, and return its tables as Markdown.

    A name may be RUN,RUN for an ensemble. Raises UserError before any work for what cannot be compared.
    """
    systems = open_systems(names, options.runs_folder, options.beam, own_text=options.files is not None)
    test_sets = choose_test_sets(systems, options)
    rows = rows_to_draw(test_sets.sets[0], options.sentences)
    for test_set in test_sets.sets:
        check_samples(options.samples)
        count = len(test_set.pairs)
        if options.max_joined is not None and not 2 <= options.max_joined <= count:
            raise UserError(f"--long {options.max_joined} is not possible with {test_set.name}; choose 2 to {count}.")
    if any((options.output / name).exists() for name in ("config.yaml", "best.safetensors", "last.safetensors")):
        raise UserError(f"--output {options.output} is a run, whose curves would be lost; name another folder.")
    with report_write_errors(options.output):
        check_writable(options.output)
    measures = [measure_system(system, test_sets, rows, options) for system in systems]
    return write_report(compare_measures(measures, test_sets, options.samples, options.metrics), options.output)
