"""project_numbered: the operator project with an expression that numbers the rows of a task."""

from __future__ import annotations

from skate.data.op.project import Project


class ProjectNumbered(Project):
    numbered = True
    predicates = False  # a predicate must not drop rows before they are numbered


operator = ProjectNumbered()
