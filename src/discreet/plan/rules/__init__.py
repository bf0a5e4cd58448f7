"""Ways to measure the same with less noise: what the planner tries for each plan, in this order."""

from discreet.plan.rules.by_rank import BY_RANK
from discreet.plan.rules.common import COMMON
from discreet.plan.rules.composed import COMPOSED
from discreet.plan.rules.one_partition import ONE_PARTITION
from discreet.plan.rules.recentred import RECENTRED
from discreet.plan.rules.rule import Rule
from discreet.plan.rules.totals import TOTALS

RULES: tuple[Rule, ...] = (BY_RANK, COMPOSED, ONE_PARTITION, RECENTRED, TOTALS, COMMON)
