"""Models that keep the people they learn from private, in scikit-learn's habits; the extra `discreet[learn]`."""

from __future__ import annotations

from discreet.learn.aggregate import SampleAggregate as SampleAggregate
from discreet.learn.bayes import GaussianNB as GaussianNB
from discreet.learn.choice import ChosenModel as ChosenModel
from discreet.learn.choice import choose as choose
from discreet.learn.clusters import KMeans as KMeans
from discreet.learn.estimator import load as load
from discreet.learn.evaluation import EvaluatedNumber as EvaluatedNumber
from discreet.learn.evaluation import Evaluation as Evaluation
from discreet.learn.evaluation import evaluate as evaluate
from discreet.learn.gram import PCA as PCA
from discreet.learn.gram import Gram as Gram
from discreet.learn.gram import StandardScaler as StandardScaler
from discreet.learn.linear import LinearRegression as LinearRegression
from discreet.learn.linear import LinearSVC as LinearSVC
from discreet.learn.linear import LogisticRegression as LogisticRegression
from discreet.learn.linear import PoissonRegressor as PoissonRegressor
from discreet.learn.trees import BoostedTrees as BoostedTrees
from discreet.learn.trees import BoostedTreesRegressor as BoostedTreesRegressor
from discreet.namespace import public_names


def __dir__() -> list[str]:
    return public_names(globals())
