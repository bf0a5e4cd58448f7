"""Everything that a recipe of one's own needs (docs/decisions/0008-pipeline.md)."""

from discreet.catalog.schema import TableSchema as TableSchema
from discreet.engine.open_run import OpenRun as OpenRun
from discreet.engine.person_parts import PeopleRows as PeopleRows
from discreet.engine.person_recipe import PersonRecipe as PersonRecipe
from discreet.engine.person_recipe import RecipeTable as RecipeTable
from discreet.engine.person_recipe import run_on_arrays as run_on_arrays
from discreet.engine.recipe import Draw as Draw
from discreet.engine.recipe import Running as Running
from discreet.engine.recipe import Wait as Wait
from discreet.mechanisms.draws import AboveOrBelow as AboveOrBelow
from discreet.mechanisms.draws import AddedNoise as AddedNoise
from discreet.mechanisms.draws import NamedBest as NamedBest
from discreet.mechanisms.draws import RunningTotals as RunningTotals
from discreet.mechanisms.samples import FixedSizeSampling as FixedSizeSampling
from discreet.mechanisms.samples import OneOfSteps as OneOfSteps
from discreet.mechanisms.samples import PoissonSampling as PoissonSampling
from discreet.plan.parts import PersonPart as PersonPart
from discreet.plan.parts import person_part as person_part
from discreet.plan.parts import plan_recipe as plan_recipe
from discreet.plan.person_rows import PersonRows as PersonRows
from discreet.plan.person_rows import person_rows as person_rows
from discreet.plan.plan import Plan as Plan
from discreet.privacy.unit import Sensitivity as Sensitivity
