"""This operator's part in the election, as conversations with agents see it."""

from dataclasses import dataclass, field

from colocation.model.agent import SeenLease


@dataclass
class FixedLeader:
    """One that leads in this term. ``heard_terms`` and ``heard_leases``: from agents."""

    term: int = 0
    lease: SeenLease | None = None
    etcd_restored: bool = False
    heard_terms: list[int] = field(default_factory=list)
    heard_leases: list[SeenLease] = field(default_factory=list)

    def hear_term(self, term: int) -> None:
        """An agent has heard of a newer one."""
        self.heard_terms.append(term)

    def hear_lease(self, lease: SeenLease) -> None:
        """An agent remembers this."""
        self.heard_leases.append(lease)
