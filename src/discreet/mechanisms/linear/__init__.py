"""The matrix mechanism: workloads of linear queries, strategies that are measured, and their optimisation."""

from __future__ import annotations

from discreet.mechanisms.linear.matrix_mechanism import Answered as Answered
from discreet.mechanisms.linear.matrix_mechanism import MatrixMechanism as MatrixMechanism
from discreet.mechanisms.linear.workloads import Workload as Workload
from discreet.mechanisms.linear.workloads import explicit as explicit
from discreet.mechanisms.linear.workloads import identity as identity
from discreet.mechanisms.linear.workloads import kron as kron
from discreet.mechanisms.linear.workloads import marginals as marginals
from discreet.mechanisms.linear.workloads import prefix as prefix
from discreet.mechanisms.linear.workloads import ranges as ranges
from discreet.mechanisms.linear.workloads import stack as stack
from discreet.mechanisms.linear.workloads import total as total
