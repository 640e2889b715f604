"""skate.data.preprocessors: results compared with NumPy, pandas or values computed by hand; one
pass for each fit; the errors for bad input."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skate.data
from skate.data import preprocessors as P
from skate.data.aggregate import Mean
from skate.data.preprocessor import (
    Preprocessor,
    PreprocessorNotFittedException,
    SerializablePreprocessorBase,
)
from skate.data.preprocessors.utils import simple_hash
from skate.data.preprocessors.version_support import (
    SerializablePreprocessor,
    UnknownPreprocessorError,
)

TEXT = ["one two", "two two  three", "", "one", None, "three"]
FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, np.nan, 8.0, 5.0, -3.0],
        "n": [3, 1, 4, 1, 5, 9],
        "same": [2, 2, 2, 2, 2, 2],
        "word": ["b", "a", "c", "a", "b", "a"],
        "tags": [["u", "v"], [], ["v", "v"], ["w"], ["u"], ["w", "u"]],
        "text": TEXT,
        "none": [None] * 6,
    }
)
N = FRAME["n"].to_numpy().astype(float)


def dataset(frame=FRAME, blocks=3):
    return skate.data.from_pandas(frame, override_num_blocks=blocks)


def column(ds, name):
    return [
        r[name] if not isinstance(r[name], np.ndarray) else r[name].tolist() for r in ds.take_all()
    ]


def values(table, name):
    return [v.tolist() if isinstance(v, np.ndarray) else v for v in table.column(name).to_pylist()]


def passes(monkeypatch):
    """Records, from now on, the number of aggregates of each pass over a Dataset."""
    seen, aggregate = [], skate.data.Dataset.aggregate
    monkeypatch.setattr(
        skate.data.Dataset,
        "aggregate",
        lambda self, *fns: seen.append(len(fns)) or aggregate(self, *fns),
    )
    return seen


def both(p, frame=FRAME):
    """A fitted preprocessor's columns by transform(); checks that transform_batch() of a DataFrame,
    a Table and a dict gives the same."""
    ds = p.transform(dataset(frame))
    table = pa.Table.from_batches(
        [
            b
            for b in ds.iter_batches(batch_format="pyarrow", batch_size=None)
            for b in b.to_batches()
        ]
    )
    given = frame.copy()
    by_frame = p.transform_batch(frame)
    pd.testing.assert_frame_equal(given, frame)  # transform_batch() did not change its input
    assert list(by_frame.columns) == table.column_names
    by_table = p.transform_batch(pa.Table.from_pandas(frame))
    assert isinstance(by_table, pa.Table) and by_table.column_names == table.column_names
    for name in p.get_output_columns():
        ours = values(table, name)
        assert repr(values(by_table, name)).replace("nan", "None") == repr(ours).replace(
            "nan", "None"
        )  # from_pandas of Arrow turns NaN into null
        for a, b in zip(ours, by_frame[name], strict=True):
            np.testing.assert_equal(
                np.array(np.nan if a is None else a), np.array(np.nan if b is None else b)
            )
    return table


SCALED = [
    (P.StandardScaler(["n"], ["o"]), (N - N.mean()) / N.std()),
    (P.MinMaxScaler(["n"], ["o"]), (N - N.min()) / (N.max() - N.min())),
    (P.MaxAbsScaler(["n"], ["o"]), N / np.abs(N).max()),
    (P.RobustScaler(["n"], output_columns=["o"]), (N - 4) / (5 - 1)),
    (P.PowerTransformer(["n"], 0.5, output_columns=["o"]), (np.sqrt(N + 1) - 1) / 0.5),
    (P.PowerTransformer(["n"], 0, "box-cox", output_columns=["o"]), np.log(N)),
]


@pytest.mark.parametrize("p, expected", SCALED, ids=lambda v: type(v).__name__)
def test_scalers_are_their_formulas(p, expected):
    np.testing.assert_allclose(
        both(p.fit(dataset()) if p._is_fittable else p).column("o"), expected
    )


@pytest.mark.parametrize("of", [P.StandardScaler, P.MinMaxScaler, P.MaxAbsScaler, P.RobustScaler])
def test_missing_values_constants_and_columns_of_nothing(of):
    p = of(["x", "same", "none"], output_columns=["a", "b", "c"]).fit(dataset())
    table = both(p)
    x, scaled = FRAME["x"].to_numpy(), table.column("a").to_numpy()
    assert np.isnan(scaled[2]) and np.all(np.diff(scaled[[5, 0, 1, 4, 3]]) > 0)
    # the transform is linear
    np.testing.assert_allclose(
        np.diff(scaled[[5, 0, 1]]) / np.diff(x[[5, 0, 1]]), (scaled[3] - scaled[5]) / 11
    )
    assert set(values(table, "b")) == ({1.0} if of is P.MaxAbsScaler else {0.0})
    assert table.column("c").null_count == 6


def test_float32_stays_and_columns_may_trade_names():
    ds = skate.data.from_arrow(
        pa.table({"a": pa.array([1, 3], pa.float32()), "b": pa.array([10, 30])})
    )
    out = P.MinMaxScaler(["a", "b"], output_columns=["b", "a"]).fit_transform(ds)
    assert dict(zip(out.schema().names, out.schema().types, strict=True)) == {
        "a": pa.float64(),
        "b": pa.float32(),
    }
    assert out.take_all() == [{"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0}]


def test_yeo_johnson_below_zero():
    x = np.array([-3.0, -1.0, 0.0, 2.0])
    for power in (0, 1, 2, -0.5):
        up = (
            np.log1p(np.maximum(x, 0))
            if power == 0
            else ((np.maximum(x, 0) + 1) ** power - 1) / power
        )
        down = (
            -np.log1p(np.maximum(-x, 0))
            if power == 2
            else -((np.maximum(-x, 0) + 1) ** (2 - power) - 1) / (2 - power)
        )
        got = P.PowerTransformer(["x"], power).transform_batch({"x": x})["x"]
        np.testing.assert_allclose(got, np.where(x >= 0, up, down))


def test_normalizer_leaves_rows_of_zeros():
    rows = {"a": np.array([3.0, 0.0, np.nan]), "b": np.array([-4, 0, 2])}
    expected = {
        "l1": ([3 / 7, 0, np.nan], [-4 / 7, 0, 1]),
        "l2": ([0.6, 0, np.nan], [-0.8, 0, 1]),
        "max": ([0.75, 0, np.nan], [-1, 0, 1]),
    }
    for norm, (a, b) in expected.items():
        got = P.Normalizer(["a", "b"], norm).transform_batch(rows)
        np.testing.assert_allclose(got["a"], a)
        np.testing.assert_allclose(got["b"], b)


def test_encoders_by_hand():
    ds = dataset()
    table = both(P.OrdinalEncoder(["word", "n", "tags"], output_columns=["a", "b", "c"]).fit(ds))
    assert values(table, "a") == pd.Categorical(FRAME["word"]).codes.tolist()
    assert values(table, "b") == pd.Categorical(FRAME["n"]).codes.tolist()
    assert values(table, "c") == [[0, 1], [], [1, 1], [2], [0], [2, 0]]
    p = P.OrdinalEncoder(["tags"], encode_lists=False).fit(ds)
    assert p.stats_ == {
        "unique_values(tags)": {
            (): 0,
            ("u",): 1,
            ("u", "v"): 2,
            ("v", "v"): 3,
            ("w",): 4,
            ("w", "u"): 5,
        }
    }
    assert values(both(p), "tags") == [2, 0, 3, 4, 1, 5]
    assert np.array_equal(
        column(P.OneHotEncoder(["word"]).fit_transform(ds), "word"),
        pd.get_dummies(FRAME["word"]).to_numpy(int),
    )
    most = P.OneHotEncoder(["word"], max_categories={"word": 1}).fit(ds)
    assert most.stats_ == {"unique_values(word)": {"a": 0}} and values(both(most), "word") == [
        [0],
        [1],
        [0],
        [1],
        [0],
        [1],
    ]
    many = both(P.MultiHotEncoder(["tags", "word"], output_columns=["t", "w"]).fit(ds))
    assert values(many, "t") == [[1, 1, 0], [0, 0, 0], [0, 2, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
    assert values(many, "w") == pd.get_dummies(FRAME["word"]).to_numpy(int).tolist()


def test_categories_that_fit_has_not_seen():
    seen, new = skate.data.from_items([{"c": "a"}, {"c": "b"}]), {"c": np.array(["b", "z"], object)}
    assert (
        P.OrdinalEncoder(["c"]).fit(seen).transform_batch(pd.DataFrame(new))["c"].tolist()[0] == 1
    )
    assert np.isnan(
        P.LabelEncoder("c").fit(seen).transform_batch(pd.DataFrame(new))["c"].tolist()[1]
    )
    assert P.OneHotEncoder(["c"]).fit(seen).transform_batch(new)["c"].tolist() == [[0, 1], [0, 0]]
    ints = P.OrdinalEncoder(["c"]).fit(skate.data.from_items([{"c": 1}, {"c": 2}]))
    assert ints.transform_batch(pa.table({"c": [2.0, 1.5]}))["c"].to_pylist() == [1, None]
    with pytest.raises(
        TypeError, match="'c' is of type string, and what fit.. has seen of type int64"
    ):
        ints.transform_batch(pa.table({"c": ["1"]}))


def test_labels_and_back():
    p = P.LabelEncoder("word", output_column="y")
    ds = p.fit_transform(dataset())
    assert column(p.inverse_transform(ds.drop_columns(["word"])), "word") == FRAME["word"].tolist()


def test_categorizer_has_pandas_categories():
    size = pd.CategoricalDtype(["c", "a"], ordered=True)
    p = P.Categorizer(["word", "n"], {"word": size}).fit(dataset())
    out = p.transform(dataset()).to_pandas()
    assert (
        out["word"].dtype == size
        and out["word"].cat.ordered
        and out["word"].isna().tolist() == [True, False, False, False, True, False]
    )
    assert (
        out["n"].cat.categories.tolist() == [1, 3, 4, 5, 9]
        and out["n"].astype(int).tolist() == FRAME["n"].tolist()
    )
    again = P.Categorizer.deserialize(p.serialize())
    assert again.dtypes == p.dtypes and again.stats_ == p.stats_


def test_imputer():
    ds = dataset()
    assert (
        column(P.SimpleImputer(["x"]).fit_transform(ds), "x")
        == FRAME["x"].fillna(FRAME["x"].mean()).tolist()
    )
    ints = skate.data.from_arrow(pa.table({"i": [1, None, 2], "w": ["b", "b", None]}))
    assert column(P.SimpleImputer(["i"]).fit_transform(ints), "i") == [1.0, 1.5, 2.0]
    common = P.SimpleImputer(["i", "w"], "most_frequent").fit(ints)
    assert common.stats_ == {"most_frequent(i)": 1, "most_frequent(w)": "b"}
    assert common.transform(ints).take_all() == [
        {"i": 1, "w": "b"},
        {"i": 1, "w": "b"},
        {"i": 2, "w": "b"},
    ]
    # a column that the batch does not have
    assert common.transform_batch({"i": np.array([5])})["w"].tolist() == ["b"]
    kinds = pd.DataFrame({"c": pd.Categorical(["u", None], categories=["z", "u"])})
    filled = P.SimpleImputer(["c"], "constant", "new").transform_batch(kinds)["c"]
    assert filled.tolist() == ["u", "new"] and filled.cat.categories.tolist() == ["z", "u", "new"]
    with pytest.raises(ValueError, match="has seen no value of column 'none'"):
        P.SimpleImputer(["none"]).fit(ds).transform_batch(FRAME)
    assert column(
        P.SimpleImputer(["b"]).fit_transform(
            skate.data.from_arrow(pa.table({"b": [True, None, False]}))
        ),
        "b",
    ) == [1.0, 0.5, 0.0]
    with pytest.raises(TypeError, match="column 'w' of type string cannot hold 5"):
        P.SimpleImputer(["w"], "constant", 5).transform_batch(pa.table({"w": ["a", None]}))
    with pytest.raises(TypeError, match="column 'i' of type int64 cannot hold 'x'"):
        P.SimpleImputer(["i"], "constant", "x").transform_batch(pa.table({"i": [1, None]}))


@pytest.mark.parametrize("right", [True, False])
def test_bins_are_those_of_cut(right):
    uniform = P.UniformKBinsDiscretizer(["n", "same"], {"n": 3, "same": 2}, right=right).fit(
        dataset()
    )
    table = both(uniform)
    for name, n in (("n", 3), ("same", 2)):
        assert values(table, name) == pd.cut(FRAME[name], n, labels=False, right=right).tolist()
    edges = [1, 2, 5]
    for lowest in (True, False):
        got = values(
            both(P.CustomKBinsDiscretizer(["n"], edges, right=right, include_lowest=lowest)), "n"
        )
        cut = pd.cut(FRAME["n"], edges, labels=False, right=right, include_lowest=lowest)
        assert got == [None if np.isnan(v) else v for v in cut]
    kinds = pd.CategoricalDtype(["few", "some", "many"], ordered=True)
    p = P.UniformKBinsDiscretizer(["n"], 3, right=right, dtypes={"n": kinds})
    assert (
        p.fit_transform(dataset()).to_pandas()["n"].tolist()
        == pd.cut(FRAME["n"], 3, labels=kinds.categories, right=right).tolist()
    )
    spans = pd.IntervalIndex.from_tuples([(0, 2), (3, 9)])
    assert P.CustomKBinsDiscretizer(["n"], spans).transform_batch(FRAME)["n"].fillna(
        -1
    ).tolist() == [-1, 0, 1, 0, 1, 1]


def test_text():
    ds = dataset()
    words = [None if t is None else t.split(" ") for t in TEXT]
    assert column(P.Tokenizer(["text"]).transform(ds), "text") == words
    assert column(P.Tokenizer(["text"], lambda t: list(t[:2])).transform(ds), "text") == [
        None if t is None else list(t[:2]) for t in TEXT
    ]
    p = P.CountVectorizer(["text"]).fit(ds)
    assert p.stats_["token_counts(text)"] == {"two": 3, "one": 2, "": 2, "three": 2} and list(
        p.stats_["token_counts(text)"]
    ) == [
        "two",
        "one",
        "",
        "three",
    ]
    assert values(both(p), "text") == [
        None if w is None else [w.count(t) for t in ("two", "one", "", "three")] for w in words
    ]
    few = P.CountVectorizer(["text"], tokenization_fn=lambda t: t.split(), max_features=1).fit(ds)
    assert values(both(few), "text") == [None if w is None else [w.count("two")] for w in words]
    hashed = values(both(P.HashingVectorizer(["text"], 4)), "text")
    assert hashed == [
        None if w is None else [sum(simple_hash(t, 4) == i for t in w) for i in range(4)]
        for w in words
    ]
    sums = P.FeatureHasher(["n", "same"], 2, "h").transform_batch(FRAME)["h"].tolist()
    assert [s.tolist() for s in sums] == [
        [sum(v for c, v in row.items() if simple_hash(c, 2) == i) for i in range(2)]
        for row in FRAME[["n", "same"]].to_dict("records")
    ]


def test_concatenator():
    ds = dataset(FRAME[["n", "x", "word"]])
    out = P.Concatenator(["x", "n"], dtype=np.float32).transform(ds)
    batch = out.take_batch(6)
    assert list(batch) == ["word", "concat_out"] and batch["concat_out"].dtype == np.float32
    np.testing.assert_array_equal(batch["concat_out"], FRAME[["x", "n"]].to_numpy(np.float32))
    nested = pa.table({"a": [1, 2], "l": [[1, 2], [3, 4]], "r": [[5], []]})
    assert values(
        P.Concatenator(["l", "a"], flatten=True).transform_batch(nested), "concat_out"
    ) == [[1, 2, 1], [3, 4, 2]]
    assert values(
        P.Concatenator(["a", "r"], flatten=True).transform_batch(nested), "concat_out"
    ) == [[1, 5], [2]]
    with pytest.raises(KeyError, match="no column 'z'"):
        P.Concatenator(["a", "z"], raise_if_missing=True).transform_batch(nested)
    assert values(P.Concatenator(["a", "z"]).transform_batch(nested), "concat_out") == [[1], [2]]
    # like a block that a filter has left without rows
    none = {"m": np.zeros((0, 3)), "a": np.zeros(0)}
    assert P.Concatenator(["m", "a"], flatten=True).transform_batch(none)["concat_out"].shape == (
        0,
        4,
    )


def test_a_fit_is_one_pass(monkeypatch):
    seen = passes(monkeypatch)
    P.StandardScaler(["n", "x"]).fit(dataset())
    assert seen == [4]
    chain = P.Chain(
        P.SimpleImputer(["x"]),
        P.LabelEncoder("word"),
        P.Chain(P.MinMaxScaler(["n"]), P.StandardScaler(["x"])),
        P.Concatenator(["n", "x"]),
    )
    chain.fit(dataset())
    # the imputer, labels and n learn together; then x, which the imputer has changed
    assert seen[1:] == [4, 2]
    filled = FRAME["x"].fillna(FRAME["x"].mean())
    out = chain.transform(dataset()).take_batch(6)
    np.testing.assert_allclose(
        out["concat_out"],
        np.column_stack([(N - 1) / 8, (filled - filled.mean()) / filled.std(ddof=0)]),
    )
    one_by_one = dataset()
    for p in (
        P.SimpleImputer(["x"]),
        P.LabelEncoder("word"),
        P.MinMaxScaler(["n"]),
        P.StandardScaler(["x"]),
        P.Concatenator(["n", "x"]),
    ):
        one_by_one = p.fit_transform(one_by_one)
    np.testing.assert_array_equal(out["concat_out"], one_by_one.take_batch(6)["concat_out"])


class Shift(Preprocessor):
    """A user's own preprocessor, which asks for aggregates."""

    def _fit(self, ds):
        self.stat_computation_plan.add_aggregator(aggregator_fn=Mean, columns=["n"])
        return self

    def _transform_pandas(self, df):
        return df.assign(n=df["n"] - self.stats_["mean(n)"])


@SerializablePreprocessor(version=3, identifier="test.keep")
class Keep(SerializablePreprocessorBase):
    _is_fittable = False

    def __init__(self, most):
        super().__init__()
        self.most = most

    def _get_serializable_fields(self):
        return {"most": self.most}

    def _set_serializable_fields(self, fields, version):
        assert version == 3
        self.most = fields["most"]

    def _transform_pandas(self, df):
        return df[df["n"] <= self.most]


def test_a_users_own_and_rows_that_go():
    chain = P.Chain(Keep(4), Shift(), P.MinMaxScaler(["n"]))
    kept = N[N <= 4]
    got = column(chain.fit_transform(dataset()), "n")
    np.testing.assert_allclose(got, (kept - kept.min()) / (kept.max() - kept.min()))
    assert chain.preprocessors[1].stats_ == {"mean(n)": kept.mean()}
    assert pickle.loads(pickle.dumps(chain)).transform_batch(FRAME)["n"].tolist() == got
    loaded = SerializablePreprocessorBase.deserialize(Keep(2).serialize())
    assert loaded.most == 2 and Preprocessor.deserialize(
        Shift().fit(dataset()).serialize()
    ).stats_ == {"mean(n)": N.mean()}


def test_fit_status_and_second_fits():
    status, p = Preprocessor.FitStatus, P.StandardScaler(["n"])
    assert (
        p.fit_status() is status.NOT_FITTED
        and P.Tokenizer(["text"]).fit_status() is status.NOT_FITTABLE
    )
    assert P.Chain(P.Tokenizer(["a"])).fit_status() is status.NOT_FITTABLE
    for use in (
        lambda: p.transform(dataset()),
        lambda: p.transform_batch(FRAME),
        lambda: P.LabelEncoder("n").inverse_transform(dataset()),
    ):
        with pytest.raises(PreprocessorNotFittedException, match="call fit"):
            use()
    assert p.fit(dataset()) is p and p.fit_status() is status.FITTED and p.has_stats()
    assert P.Chain(p, P.MinMaxScaler(["x"])).fit_status() is status.PARTIALLY_FITTED
    with pytest.warns(UserWarning, match="was fitted before"):
        p.fit(dataset(FRAME[:2]))
    assert p.stats_ == {"mean(n)": 2.0, "std(n)": 1.0}


ALL = [
    P.Categorizer(["word"]), P.Chain(P.StandardScaler(["n"]), P.Normalizer(["n", "x"])), P.Concatenator(["n", "x"], flatten=True),
    P.CountVectorizer(["text"], max_features=2), P.CustomKBinsDiscretizer(["n"], [0, 4, 9]), P.FeatureHasher(["n"], 3, "h"), P.HashingVectorizer(["text"], 3),
    P.LabelEncoder("word"), P.MaxAbsScaler(["n"]), P.MinMaxScaler(["n"]), P.MultiHotEncoder(["tags"]), P.Normalizer(["n", "x"]),
    P.OneHotEncoder(["word"]), P.OrdinalEncoder(["tags"]), P.PowerTransformer(["n"], 2), P.RobustScaler(["n"]), P.SimpleImputer(["x"]), P.StandardScaler(["n"]),
    P.Tokenizer(["text"]), P.UniformKBinsDiscretizer(["n"], 2),
]  # fmt: skip


@pytest.mark.parametrize("p", ALL, ids=lambda p: type(p).__name__)
def test_all_are_serialized(p):
    assert repr(p).startswith(f"{type(p).__name__}(") and p.fit(dataset()) is p
    data = p.serialize()
    assert data.startswith(b"CPKL:")
    again = type(p).deserialize(data)
    assert (
        type(again) is type(p) and repr(again) == repr(p) and again.fit_status() == p.fit_status()
    )
    pd.testing.assert_frame_equal(again.transform_batch(FRAME), p.transform_batch(FRAME))


def test_wrong_input_says_so():
    ds, empty = dataset(), dataset().filter(lambda r: False)
    with pytest.raises(ValueError, match="3 names and output_columns 1; give one name"):
        P.StandardScaler(["a", "b", "c"], output_columns=["a"])
    with pytest.raises(TypeError, match="columns is a list of names"):
        P.StandardScaler("n")
    with pytest.raises(ValueError, match="two columns of the result"):
        P.OneHotEncoder(["n", "word"], output_columns=["a", "a"])
    with pytest.raises(
        TypeError, match="StandardScaler: column 'word' is of type string, not of numbers"
    ):
        P.StandardScaler(["word"]).fit(ds)
    with pytest.raises(KeyError, match="no column 'no'"):
        P.MinMaxScaler(["no"]).fit(ds)
    with pytest.raises(KeyError, match="Normalizer: there is no column 'no'"):
        P.Normalizer(["no"]).transform(ds)
    for p in (P.StandardScaler(["n"]), P.OneHotEncoder(["word"]), P.Chain(P.MaxAbsScaler(["n"]))):
        with pytest.raises(ValueError, match="the Dataset has no rows"):
            p.fit(empty)
        assert p.fit_status() is Preprocessor.FitStatus.NOT_FITTED
    for p in (P.OrdinalEncoder(["text"]), P.LabelEncoder("x"), P.MultiHotEncoder(["text"])):
        with pytest.raises(ValueError, match="missing values, which are no category"):
            p.fit(ds)
    with pytest.raises(ValueError, match="missing values"):
        P.OneHotEncoder(["w"]).fit(skate.data.from_items([{"w": "a"}])).transform_batch(
            {"w": np.array(["a", None], object)}
        )
    with pytest.raises(TypeError, match="takes a Dataset, not DataFrame"):
        P.StandardScaler(["n"]).fit(FRAME)
    with pytest.raises(
        ValueError,
        match="takes a DataFrame, a pyarrow Table, a dict of arrays or an array, not list",
    ):
        P.Tokenizer(["text"]).transform_batch([1])
    with pytest.raises(ValueError, match="box-cox takes values above 0, and column 'x' has -3.0"):
        P.PowerTransformer(["x"], 1, "box-cox").transform_batch(FRAME)
    with pytest.raises(TypeError, match="'n' is of type int64, not of text"):
        P.CountVectorizer(["n"]).fit(ds)
    for wrong in (lambda: P.Normalizer(["n"], "l3"), lambda: P.SimpleImputer(["n"], "constant"), lambda: P.SimpleImputer(["n"], "median"),
                  lambda: P.PowerTransformer(["n"], 1, "log"), lambda: P.RobustScaler(["n"], (0.9, 0.1)), lambda: P.HashingVectorizer(["text"], 0),
                  lambda: P.CustomKBinsDiscretizer(["n"], [3, 1]), lambda: P.CustomKBinsDiscretizer(["n"], {"x": [1, 2]}),
                  lambda: P.UniformKBinsDiscretizer(["none"], 2).fit(ds), lambda: P.OneHotEncoder(["n"], max_categories={"x": 1}), P.Chain):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError, match="an int, not 2.5"):
        P.UniformKBinsDiscretizer(["n"], 2.5).fit(ds)
    with pytest.raises(UnknownPreprocessorError, match="'test.keep2'"):
        SerializablePreprocessorBase.deserialize(
            Keep(1)
            .serialize()
            .replace(b"test.keep", b"test.keep2")
            .replace(b"\x8c\x09", b"\x8c\x0a", 1)
        )
    with pytest.raises(ValueError, match="no serialized preprocessor"):
        SerializablePreprocessorBase.deserialize(b"CPKL:nothing")


def test_images():
    torch = pytest.importorskip("torch")
    p = P.TorchVisionPreprocessor(["image"], lambda t: t.permute(2, 0, 1) / 2, ["out"])
    images = np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3)
    out = p.transform(skate.data.from_items([{"image": i} for i in images])).take_batch(2)
    np.testing.assert_array_equal(out["out"], images.transpose(0, 3, 1, 2) / 2)
    batched = P.TorchVisionPreprocessor(["image"], lambda t: torch.flip(t, [1]), batched=True)
    np.testing.assert_array_equal(
        batched.transform_batch({"image": images})["image"], images[:, ::-1]
    )
    with pytest.raises(ValueError, match="gave a value of type str"):
        P.TorchVisionPreprocessor(["image"], lambda t: "x").transform_batch({"image": images})
