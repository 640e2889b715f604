"""optuna: values of trials from tasks, and whole studies in tasks over one journal."""

import optuna
import ray
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

optuna.logging.set_verbosity(optuna.logging.WARNING)
ray.init(num_cpus=2)


def objective(x, n):
    return (x - 2) ** 2 + n


space = {"x": FloatDistribution(-10, 10), "n": IntDistribution(0, 5)}
remote = ray.remote(objective)


def search(values):
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=3))
    for _ in range(5):
        trials = [study.ask(space) for _ in range(8)]
        for trial, value in zip(trials, values([t.params for t in trials])):
            study.tell(trial, value)
    return [(t.params, t.value) for t in study.trials]


assert search(lambda ps: ray.get([remote.remote(**p) for p in ps])) == search(
    lambda ps: [objective(**p) for p in ps]
)


def journal():
    return JournalStorage(JournalFileBackend("journal"))


@ray.remote
def part(seed, n):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(
        storage=journal(), study_name="s", sampler=optuna.samplers.RandomSampler(seed=seed)
    )
    study.optimize(lambda t: objective(t.suggest_float("x", -10, 10), 0), n_trials=n)


optuna.create_study(storage=journal(), study_name="s")
ray.get([part.remote(i, 5) for i in range(4)])
study = optuna.load_study(storage=journal(), study_name="s")
assert len(study.trials) == 20 and {t.state.name for t in study.trials} == {"COMPLETE"}
