"""``advise``: how many buckets and replicas a group should have, and by which rule."""

import click

from .options import output_option
from .output import Format, size, write
from .sizing import Advice, Workload
from .sizing import advise as advise_on

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
COUNT = click.IntRange(min=1)


class Bytes(click.ParamType):
    """A size such as 500Gi, 1.5T or plain bytes; units are powers of 1024."""

    name = "size"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> int:
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        number, unit = (text[:-1], text[-1]) if text and text[-1].isalpha() else (text, "")
        try:
            count = int(float(number) * _UNITS[unit])
        except (KeyError, ValueError, OverflowError):
            count = 0
        if count <= 0:
            self.fail(f"{value!r} given; allowed: a size such as 500Gi, 1.5T, or bytes", parameter, context)
        return count


@click.command()
@click.option("--size", "bytes_", type=Bytes(), required=True, help="Of the largest table, as Parquet: 500Gi, 1.5T.")
@click.option("--cores", type=COUNT, required=True, help="Executor cores that one query gets.")
@click.option("--nodes", type=COUNT, required=True, help="Nodes that hold data.")
@click.option("--partitions", type=COUNT, default=1, show_default=True, help="Partitions that the table has.")
@click.option("--survive", "losses", type=click.IntRange(min=0), default=1, show_default=True,
              help="Nodes whose loss at the same time may cost nothing.")  # fmt: skip
@output_option
def advise(bytes_: int, output: Format, **workload: int) -> None:
    """Buckets and replicas for a group, from the size of its largest table and the cores of a query.

    No cluster is asked.
    """
    advice = advise_on(Workload(bytes=bytes_, **workload))
    write(advice.to_json_dict(), render(advice), output)


def render(advice: Advice) -> str:
    """What to write into the spec, then why."""
    lines = [
        f"buckets: {advice.buckets}", f"replicas: {advice.replicas}", "",
        f"files of about {size(advice.file_bytes)}",
        f"disk per node {size(advice.disk_bytes_per_node)}, so that it is filled to 60 %", "",
        *(f"- {reason}" for reason in advice.reasons),
        *(f"! {remark}" for remark in advice.remarks),
    ]  # fmt: skip
    return "\n".join(lines)
