"""What leaves of a question to two populations: a release that two accounts have paid for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.plan.flows.plan import SharedPlan
from discreet.privacy.guarantee import Approximate
from discreet.release import Drawn, NoisyTable, Release

if TYPE_CHECKING:
    from discreet.certificate.paid import PaidByBoth


class SharedRelease(Release):
    """Publishable rows with intervals, charged to two populations.

    Guarantee:
        As `Release`, for each of the two populations by itself, at what its own account was charged.

    Attributes:
        plan: what was asked.
        table: the noisy numbers.
        stored: whether the ledger had the answer, so that asking was free.
    """

    plan: SharedPlan

    def __init__(
        self,
        plan: SharedPlan,
        table: NoisyTable,
        *,
        stored: bool,
        proof: PaidByBoth | None = None,
        original: SharedRelease | None = None,
        drawn: Drawn | None = None,
    ) -> None:
        nothing = Approximate(plan.epsilon * 0)  # two populations have no one price: see `charges`
        super().__init__(plan, table, charged=nothing, stored=stored, original=original, drawn=drawn)
        self._proof = proof

    @property
    def charges(self) -> Mapping[str, Approximate]:
        """What each population was charged for this asking: nothing where the ledger had the answer."""
        free = Approximate(self.plan.epsilon * 0)
        return {p.population: free if self.stored else p.paid.guarantee for p in self.plan.parties}

    @property
    def charged(self) -> Never:
        """There is no one charge: see `charges`."""
        raise InvalidParameter(
            "a release to two populations was charged to each of them, each time something else.",
            hint="look at .charges, by the names of the populations",
        )

    @property
    def costs(self) -> Mapping[str, PrivacyLoss]:
        """What the measurement behind this release cost each population when it was drawn."""
        return self.plan.costs

    @property
    def cost(self) -> Never:
        """There is no one cost: see `costs`."""
        raise InvalidParameter(
            "a release to two populations cost each of them something else.",
            hint="look at .costs, by the names of the populations",
        )

    def nonnegative(self) -> SharedRelease:
        """As `Release.nonnegative`."""
        if self._original is not None:
            return self
        return SharedRelease(
            self.plan, self.table, stored=self.stored, proof=self._proof, original=self, drawn=self.drawn
        )

    def citations(self) -> list[str]:
        """The works on which this release's guarantees rest."""
        from discreet.plan.flows.words import cited

        return cited(self.plan)

    @property
    def _prove(self) -> Callable[[Sequence[str], Sequence[Sequence[Any]]], dict[str, Any]] | None:
        return None if self._proof is None else self._proof.certificate
