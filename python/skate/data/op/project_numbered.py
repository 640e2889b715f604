"""project_numbered: project with an expression that numbers the rows of its task."""

from __future__ import annotations

from skate.data.op.project import Project


class ProjectNumbered(Project):
    numbered = True
    predicates = False  # rows that a predicate drops have numbers, too


operator = ProjectNumbered()
