"""A group's id, as the seeds show it: the namespace's number, a dot, the group's number."""

from ..kube.observation import Observation, ObservedGroup


def group_id(observation: Observation, group: ObservedGroup) -> str | None:
    """``<first 8 hex digits of the namespace's uid>.<number from the group's uid>``; None before the uid is known.

    The number follows from the uid, so that it needs no counter: two operators give a group one id, and a group that is
    made anew gets another.
    """
    namespace_uid = observation.namespace_uids.get(group.identity.namespace)
    if namespace_uid is None:
        return None
    return f"{namespace_uid[:8]}.{int(group.identity.uid.replace('-', '')[:8], 16)}"
