"""scikit-learn over joblib's backend "ray" finds what it finds in one thread."""

import joblib
import numpy as np
from ray.util.joblib import register_ray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score

register_ray()
X, y = make_classification(600, 12, random_state=0)


def fit():
    grid = {"max_depth": [2, 4, 6], "max_features": [2, 4]}
    search = GridSearchCV(
        RandomForestClassifier(random_state=0, n_estimators=20), grid, cv=3, n_jobs=-1
    ).fit(X, y)
    scores = cross_val_score(
        RandomForestClassifier(random_state=1, n_estimators=20), X, y, cv=4, n_jobs=-1
    )
    forest = RandomForestClassifier(random_state=2, n_estimators=40, n_jobs=-1).fit(X, y)
    return search.cv_results_["mean_test_score"], scores, forest.predict_proba(X)


with joblib.parallel_backend("ray"):
    here = fit()
with joblib.parallel_backend("threading", n_jobs=1):
    own = fit()
assert all(np.array_equal(a, b) for a, b in zip(here, own))
