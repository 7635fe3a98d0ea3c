"""What can go wrong with a request to the cluster, by what the operator does about it."""


class ClusterError(Exception):
    """A request to the API server or to an agent failed; the next pass decides again."""


class Refused(ClusterError):
    """The API server does not allow it (rights, quota, policy): asking again soon changes nothing."""


class StaleDecision(ClusterError):
    """What an action was decided from is not so any more: somebody else wrote meanwhile. Expected, and harmless."""


class AlreadyWritten(ClusterError):
    """The same was written before, and the API server did not keep it: writing it again changes nothing."""
