"""The aggregates that can be asked for: the measures that they need, and how the noisy ones combine."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

from discreet.plan.aggregates.aggregate import Aggregate
from discreet.plan.aggregates.columns import (
    count,
    count_distinct,
    count_if,
    count_units,
    every,
    mean,
    mean_distinct,
    some,
    total,
    total_distinct,
)
from discreet.plan.aggregates.dated import dated
from discreet.plan.aggregates.moments import (
    correlation,
    covariance,
    determination,
    deviation,
    intercept,
    pair_count,
    pair_mean,
    scatter,
    slope,
    variance,
)
from discreet.plan.aggregates.nested import each, histogram, top
from discreet.plan.aggregates.quantile import extreme, mode, quantile
from discreet.plan.aggregates.within import count_within, sum_within

_CONTINUOUS, _DISCRETE = (
    dated(q, partial(quantile, continuous=False)) for q in (quantile, partial(quantile, continuous=False))
)
_LEAST, _GREATEST = (dated(e, e) for e in (partial(extreme, greatest=g) for g in (False, True)))

AGGREGATES: MappingProxyType[str, Aggregate] = MappingProxyType(
    {
        "count": count,
        "count if": count_if,
        "count distinct unit": count_units,
        "count distinct": count_distinct,
        "count within": count_within,
        "sum": total,
        "sum within": sum_within,
        "sum within a row": partial(sum_within, is_row=True),
        "sum distinct": total_distinct,
        "avg": mean,
        "avg distinct": mean_distinct,
        "var_pop": variance,
        "var_samp": partial(variance, sample=True),
        "stddev_pop": deviation,
        "stddev_samp": partial(deviation, sample=True),
        "covar_pop": covariance,
        "covar_samp": partial(covariance, sample=True),
        "corr": correlation,
        "regr_slope": slope,
        "regr_intercept": intercept,
        "regr_r2": determination,
        "regr_count": pair_count,
        "regr_avgx": partial(pair_mean, of_x=True),
        "regr_avgy": partial(pair_mean, of_x=False),
        "regr_sxx": partial(scatter, of="xx"),
        "regr_sxy": partial(scatter, of="xy"),
        "regr_syy": partial(scatter, of="yy"),
        "bool_or": some,
        "bool_and": every,
        "quantile_cont": _CONTINUOUS,
        "quantile_cont list": each(_CONTINUOUS),
        "quantile_disc": _DISCRETE,
        "quantile_disc list": each(_DISCRETE),
        "min": _LEAST,
        "max": _GREATEST,
        "mode": mode,
        "approx_top_k": top,
        "histogram": histogram,
    }
)
"""Name → aggregate."""
