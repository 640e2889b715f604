"""DataContext: names and values are checked when they are assigned; nothing runs here."""

import copy
import pickle
import sys
import types
import warnings

import pytest
import skate
from skate.data import DataContext, ExecutionOptions, ExecutionResources
from skate.data import context as of


@pytest.mark.parametrize(
    "name, near",
    [
        ("target_max_blocksize", "target_max_block_size"),
        ("max_target_block_size", "target_max_block_size"),
        ("policy", "scheduling_policy"),
        ("shufle_strategy", "shuffle_strategy"),
        ("on_eror", "on_error"),
    ],
)
def test_a_wrong_name_tells_the_nearest(name, near):
    ctx = DataContext()
    with pytest.raises(AttributeError, match=f"no setting {name!r}: did you mean {near!r}"):
        setattr(ctx, name, 5)
    with pytest.raises(AttributeError, match=f"did you mean {near!r}"):
        getattr(ctx, name)
    assert repr(ctx) == "DataContext()"


def test_a_name_like_no_other(monkeypatch):
    ctx = DataContext()
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with pytest.raises(AttributeError, match=r"'zzz'; help.*set_config\('zzz'"):
        ctx.zzz = 1
    # as in a program of Ray, which may assign any name
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    with pytest.warns(UserWarning, match="no setting 'zzz'"):
        ctx.zzz = 1
    assert ctx.zzz == 1 and ctx.copy().zzz == 1
    with pytest.raises(AttributeError, match="target_max_block_size"):
        ctx.target_max_blocksize = 1


WRONG = [
    ("target_max_block_size", "128MB", TypeError, "bytes.*n \\* 1024.*None: no limit"),
    ("target_max_block_size", 0, ValueError, "1 or more"),
    ("target_max_block_size", 1.5, ValueError, "whole number"),
    ("enable_progress_bars", "no", TypeError, "True or False"),
    ("on_error", "skp", ValueError, "'raise', 'skip', 'quarantine'"),
    ("max_errors", 1.5, ValueError, "share"),
    ("max_errors", "all", TypeError, "share"),
    ("scheduling_policy", "paperr", ValueError, ", ".join(map(repr, skate._skate.POLICIES))),
    ("scheduling_strategy", "SPRED", ValueError, "'SPREAD'"),
    ("wait_for_min_actors_s", "1", TypeError, "seconds"),
    ("retried_io_errors", "AWS", TypeError, "list of texts"),
    ("actor_init_retry_on_errors", [3], TypeError, "exception classes"),
    ("execution_options", {}, TypeError, "an ExecutionOptions"),
    ("checkpoint_config", 3, TypeError, "CheckpointConfig"),
]


@pytest.mark.parametrize("name, value, error, text", WRONG)
def test_a_wrong_value(name, value, error, text):
    ctx = DataContext()
    with pytest.raises(error, match=f"DataContext.{name} = .*{text}"):
        setattr(ctx, name, value)
    assert repr(ctx) == "DataContext()"


def test_defaults_pass_their_own_checks():
    ctx = DataContext()
    for name in of._SETTINGS:
        setattr(ctx, name, getattr(ctx, name))
        assert name in (DataContext.__doc__ or ""), f"{name} is not explained"
    assert repr(ctx) == "DataContext()"


def test_repr_and_copies():
    ctx = DataContext()
    ctx.target_max_block_size = 2e6
    ctx.scheduling_policy = "paper"
    ctx.execution_options.resource_limits = ExecutionResources(cpu=1)
    ctx.set_config("level", 1)
    assert ctx.target_max_block_size == 2_000_000 and type(ctx.target_max_block_size) is int
    for c in (ctx, ctx.copy(), copy.deepcopy(ctx), pickle.loads(pickle.dumps(ctx))):
        assert repr(c).startswith(
            "DataContext(target_max_block_size=2000000, execution_options=ExecutionOptions(resource_limits=ExecutionResources(cpu=1,"
        )
        assert repr(c).endswith("scheduling_policy='paper', 'level': 1)")


def test_rays_settings_without_a_meaning_say_so_once(monkeypatch):
    monkeypatch.setattr(of, "_told", set())
    ctx = DataContext()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ctx.min_parallelism = 200  # the default value
        ctx.eager_free = True
        ctx.eager_free = True
        DataContext().eager_free = True
    assert [str(w.message) for w in said] == [
        "DataContext.eager_free is a setting of Ray that has no effect in skate: an object goes with its last reference"
    ]
    assert (
        said[0].filename == __file__
        and ctx.eager_free is True
        and repr(ctx) == "DataContext(eager_free=True)"
    )


@pytest.mark.parametrize(
    "name, value, other, means",
    [
        ("use_push_based_shuffle", True, "shuffle_strategy", "sort_shuffle_push_based"),
        ("target_shuffle_max_block_size", 1 << 20, "target_max_block_size", 1 << 20),
        ("write_file_retry_on_errors", ["busy"], "retried_io_errors", ["busy"]),
        ("use_polars", True, "use_polars_sort", True),
        (
            "use_arrow_tensor_v2",
            False,
            "arrow_fixed_shape_tensor_format",
            of.FixedShapeTensorFormat.V1,
        ),
    ],
)
def test_a_deprecated_name_reads_and_sets_what_took_its_place(name, value, other, means):
    context = DataContext()
    before = getattr(context, name)
    with pytest.warns(DeprecationWarning, match=other):
        setattr(context, name, value)
    assert getattr(context, name) == value and getattr(context, other) == means
    with pytest.warns(DeprecationWarning):
        setattr(context, name, before)
    assert repr(context) == "DataContext()"


def test_execution_options():
    o = ExecutionOptions()
    with pytest.raises(AttributeError, match="did you mean 'preserve_order'"):
        o.preserve_ordr = True
    with pytest.raises(TypeError, match="an ExecutionResources is wanted"):
        o.resource_limits = 3
    with pytest.raises(TypeError, match="True or False"):
        o.preserve_order = "yes"
    assert o == ExecutionOptions() != ExecutionOptions(verbose_progress=True)
