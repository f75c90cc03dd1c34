"""Compare nmt.attention with other toolkits' attention modules on the same weights, in float64.

python scripts/peer_attention.py

Prints a row for each comparison: the peer and its version, the module, what was compared, and the largest absolute
difference of the values and of the gradients (of the inputs and of all shared parameters). Exit code 1 if a difference
exceeds its tolerance: 1e-10, or 1e-5 where the peer takes its softmax in float32. A peer that is not installed is named
on stderr and left out. None is a dependency of nmt; into an environment that has nmt they come by

    pip install --no-deps OpenNMT-py==3.5.1 joeynmt==2.3.0 sockeye==3.1.34

What they import themselves but these modules do not need is replaced by stand-ins where it is missing.
"""

import sys
import warnings
from importlib.metadata import PackageNotFoundError, version

import torch
from peer_modules import PEERS
from peers import B, Case, D, Peer, S, T, apart, noise, whole
from torch import nn


def measure(case: Case) -> tuple[float, float]:
    """Fill both sides with the same numbers; how far are their outputs apart, and how far the gradients?"""
    for parameter in case.parameters:
        nn.init.zeros_(parameter)
    with torch.no_grad():
        for pair in case.shared:
            pair.ours.uniform_(-1, 1)
        for pair in case.shared:
            pair.theirs.copy_(pair.part(pair.ours))
    inputs = noise(B, T, D).requires_grad_(), noise(B, S, D).requires_grad_()
    ours, theirs = ([output for output in side(*inputs) if output is not None] for side in (case.ours, case.theirs))
    slopes = [noise(*output.shape) for output in ours]
    of_ours = torch.autograd.grad(ours, [*inputs, *(pair.ours for pair in case.shared)], slopes, materialize_grads=True)
    of_theirs = torch.autograd.grad(
        theirs, [*inputs, *(pair.theirs for pair in case.shared)], slopes, materialize_grads=True
    )
    parts = [whole, whole, *(pair.part for pair in case.shared)]
    values = max(map(apart, ours, theirs))
    return values, max(apart(part(one), other) for part, one, other in zip(parts, of_ours, of_theirs, strict=True))


def compare(peer: Peer) -> bool:
    """Print the rows of a peer and its remarks; True if all are within their tolerance."""
    good = True
    for make in peer.cases:
        torch.manual_seed(1)
        case = make()
        values, gradients = measure(case)
        within = max(values, gradients) <= case.tolerance
        good = good and within
        cells = peer.name, version(peer.name), case.module, case.compared, f"{values:.1e}", f"{gradients:.1e}"
        print(*cells, "" if within else f"more than {case.tolerance:.0e}", sep="\t")
    remarks = list(peer.remarks)
    if peer.order:
        torch.manual_seed(1)
        order = peer.order()
        remarks.append(
            f"{order.decoder}: its weights are {order.after:.1e} from those of s_t and {order.before:.1e} from those "
            f"of s_(t−1): it looks {'after' if order.after < order.before else 'before'} the step; Bahdanau 2015 looks "
            "before it."
        )
    for remark in remarks:
        print(f"# {peer.name} {remark}")
    return good


def main() -> None:
    """Compare with every peer that is installed."""
    warnings.simplefilter("ignore")  # about the peers' own age
    print("peer", "version", "module", "compared", "values", "gradients", "", sep="\t")
    good = True
    for peer in PEERS:
        try:
            version(peer.name)
        except PackageNotFoundError:
            print(f"{peer.name} is not installed: left out.", file=sys.stderr)
            continue
        good = compare(peer) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
