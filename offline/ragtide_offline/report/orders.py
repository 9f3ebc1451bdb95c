"""What happened in an experiment: every order that was followed, with the item from which it counted. No I/O."""

from collections.abc import Sequence

from ragtide_schemas.experiments import Order, Progress

from .content import Happened


def happened(progress: Progress, orders: Sequence[Order]) -> list[Happened]:
    """Return orders with the number of items that had been looked at when each began to count.

    A config's spans of items tell it: they begin and end with its orders, in the same order.

    Args:
        progress: where the experiment stands after them.
        orders: those that changed something, the first first.
    """
    running = dict.fromkeys(progress.configs, True)
    span = dict.fromkeys(progress.configs, 0)
    found = []
    for order in orders:
        item = None
        name = order.config or ""
        if order.op == "clone" and order.clone is not None:
            item = progress.configs[order.clone].spans[0][0]
        elif order.op in {"stop", "delete"} and running[name]:
            item, running[name] = progress.configs[name].spans[span[name]][1], False
        elif order.op == "resume" and not running[name]:
            span[name] += 1
            item, running[name] = progress.configs[name].spans[span[name]][0], True
        found.append(Happened(order, item))
    return found
