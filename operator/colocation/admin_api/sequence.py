"""A bucket sequence that was sent: parsed, then checked as the planner checks ``spec.bucketSequence``. Pure."""

import json

from ..model.conditions import Reason
from ..model.group import BucketSequence
from ..planner.cluster import Cluster
from ..planner.placement import sequence_problem
from ..planner.view import GroupView
from .errors import Refusal
from .last_pass import LastPass

EXPECTED = 'the body must be a nested array, the nodes of each bucket: [["node-1", "node-2"], ["node-2", "node-3"]]'


def parsed_sequence(body: bytes) -> BucketSequence:
    """The sequence in a request's body.

    Numbers are taken for names, as Doris' backends are numbers: no node has such a name, and that is said.

    Raises:
        Refusal: 400, it is no JSON, or not of that shape.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "InvalidBody", f"the body is not JSON ({error}); {EXPECTED}") from error
    if not isinstance(value, list):
        raise _wrong_shape(f"it is {_kind(value)}")
    for bucket, nodes in enumerate(value):
        if not isinstance(nodes, list):
            raise _wrong_shape(f"bucket {bucket} is {_kind(nodes)}")
        for node in nodes:
            if not isinstance(node, str | int) or isinstance(node, bool):
                raise _wrong_shape(f"bucket {bucket} holds {_kind(node)}")
    return tuple(tuple(str(node) for node in nodes) for nodes in value)


def check_sequence(last_pass: LastPass, namespace: str, name: str, sequence: BucketSequence) -> None:
    """Whether the sequence can be the group's map now: the planner's own check, in Doris' and StarRocks' words.

    Raises:
        Refusal: 400, it cannot; 503, the operator has not looked at the group yet.
    """
    cluster = Cluster(last_pass.snapshot)
    group = cluster.groups.get((namespace, name))
    if group is None:
        raise Refusal(503, "NotReady", "the operator has not looked at this group yet; try again")
    problem = sequence_problem(GroupView(cluster, group), sequence)
    if problem is not None:
        raise Refusal(400, Reason.INVALID_BUCKET_SEQUENCE.value, problem.message)


def _wrong_shape(what: str) -> Refusal:
    return Refusal(400, "InvalidBody", f"{what}; {EXPECTED}")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
