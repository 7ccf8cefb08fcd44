"""Prior files: what is loaded is what was saved, and a bad file is one line of error, whatever is wrong."""

from __future__ import annotations

import json
import os
import random
import resource
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from learners.test_conformance import QUICK as CHEAP
from scoreprior import serialization
from scoreprior._saved_classes import UnknownClassError, class_of
from scoreprior._trees import decode, encode
from scoreprior.gp import ProcessConfig
from scoreprior.gp.kernels import Basis, BasisMean, Linear, Matern, Sum
from scoreprior.gp.process import GaussianProcess
from scoreprior.gp.scale import ScaleCalibration
from scoreprior.inference import BNNConfig, ClosedForm
from scoreprior.learners import Prior, learner, methods
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.learners.naive import NaivePrior
from scoreprior.scores.network import NetworkConfig, ScoreNetwork
from scoreprior.serialization import PriorFileError, describe, load_prior, save_prior
from scoreprior.tasks import PaddedTasks, Standardizer, Task, TaskSet

QUICK = {"last-value", "context-mean", "newest-lag", "ridge", "vanilla-gp"}
METHODS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in methods()]
METHODS.append(pytest.param("by hand"))


@cache
def tasks() -> TaskSet:
    # The second input is near the target, as a lag is.
    generator = np.random.default_rng(3)
    members = []
    for i in range(4):
        x = generator.normal(size=(5, 2))
        members.append(Task(x, x[:, 1] + 0.1 * generator.normal(size=5), f"task {i}"))
    return TaskSet(members)


def by_hand() -> FunctionPrior:
    """What a hierarchical process is made of, without the time that fitting it takes; leaves as a fit leaves them."""
    generator = np.random.default_rng(4)

    def numbers(*shape: int) -> np.ndarray:
        return np.asarray(generator.uniform(0.5, 1.5, shape), np.float32)

    smooth = Sum((Linear(numbers(), numbers(1)), Matern(numbers(), numbers(2), float("inf"))))
    centres = numbers(3, 2)
    deviation = (Linear(numbers(), numbers(2)), Matern(numbers(), numbers(2), 0.5))
    kernel = Sum((*deviation, Basis(smooth, centres, numbers(3, 3))))
    scale = ScaleCalibration(numbers(5), numbers(5), numbers())
    process = GaussianProcess(BasisMean(smooth, centres, numbers(3)), kernel, numbers(), numbers(8), scale)
    return FunctionPrior(Standardizer.fit(tasks()), ClosedForm(process))


@cache
def fitted(name: str) -> Prior:
    if name == "by hand":
        return by_hand()
    return learner(name, **({"steps": 5} if name == "vanilla-gp" else CHEAP.get(name, {}))).fit(
        tasks(), 0, progress=False
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prior.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a small file with arrays of several types."""
    path = tmp_path_factory.mktemp("saved") / "prior"
    save_prior(fitted("newest-lag"), path, metadata={"method": "newest-lag"})
    return path.read_bytes()


def assert_same_tree(one: Any, other: Any) -> None:
    """Same types, array types, dtypes and bits, compared by way of the encoding and leaf by leaf."""
    (structure, arrays), (structure_2, arrays_2) = encode(one, "one"), encode(other, "other")
    assert structure == structure_2
    assert list(arrays) == list(arrays_2)
    for a, b in zip(arrays.values(), arrays_2.values()):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def error_of(action: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(PriorFileError) as caught:
        action(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def forge(
    data: bytes,
    info: Callable[[dict], Any] = lambda info: None,
    outer: Callable[[dict], Any] = lambda outer: None,
    text: Callable[[str], str] = lambda text: text,
    body: Callable[[bytes], bytes] = lambda body: body,
    checksum: bool = True,
) -> bytes:
    """The file with an edit of its inner JSON, outer JSON, text or arrays, and with its checksum made good."""
    length = int.from_bytes(data[:8], "little")
    header, arrays = json.loads(data[8 : 8 + length]), data[8 + length :]
    inner = json.loads(header["__metadata__"]["scoreprior"])
    info(inner)
    header["__metadata__"]["scoreprior"] = json.dumps(inner, separators=(",", ":"))
    outer(header)
    raw = text(json.dumps(header, separators=(",", ":"))).encode()
    made = len(raw).to_bytes(8, "little") + raw + body(arrays)
    return serialization._with_checksum(made) if checksum else made


@pytest.mark.parametrize("name", METHODS)
def test_round_trip_of_every_method(name: str, path: Path) -> None:
    prior = fitted(name)
    save_prior(prior, path, metadata={"method": name})
    loaded = load_prior(path)
    assert type(loaded) is type(prior)
    assert_same_tree(prior, loaded)
    assert jax.tree.structure(eqx.filter(prior, eqx.is_array)) == jax.tree.structure(eqx.filter(loaded, eqx.is_array))
    context, query = tasks()[1], np.linspace(-2, 2, 14).reshape(7, 2)
    one, other = (p.condition(context.x[:3], context.y[:3], 1).predict(query) for p in (prior, loaded))
    assert one.locs.tobytes() == other.locs.tobytes()
    if not one.is_point:
        assert one.scales.tobytes() == other.scales.tobytes()
    # The same prior gives the same file, byte for byte.
    again = path.with_name("again")
    save_prior(loaded, again, metadata={"method": name})
    assert again.read_bytes() == path.read_bytes()


def test_round_trip_of_a_score_network() -> None:
    config = NetworkConfig(embedding=8, heads=2, key_size=4)
    shapes = eqx.filter_eval_shape(ScoreNetwork, 2, config, jax.random.key(0))
    numbers = np.random.default_rng(0)
    network = jax.tree.map(lambda leaf: jnp.asarray(numbers.normal(size=leaf.shape), leaf.dtype), shapes)
    loaded = decode(*encode(network, "network"))
    assert_same_tree(network, loaded)
    assert jax.tree.structure(network) == jax.tree.structure(loaded)


def test_round_trip_of_every_kind_of_node() -> None:
    with jax.enable_x64(True):
        double = jnp.arange(3, dtype=jnp.float64)
    keys = jax.random.split(jax.random.key(5), 3)
    tree = {
        "scalars": [None, True, False, 0, -7, 2**70, 1.0, -0.0, 5e-324, 0.1, "é\n\"'", ""],
        "floats": (float("inf"), float("-inf")),
        "empty": ((), [], {}),
        "a.b": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "a": {"b": np.float64(3.5), "c": np.array(True), "d": np.zeros((0, 3), np.uint8)},
        "jax": [jnp.float32(2), jnp.arange(2) > 0, double, jnp.float16([1, 2]), jnp.complex64(1j)],
        "__metadata__": jnp.int8(3),
        "keys": (keys, jax.random.key(1, impl="rbg")),
        "big-endian": np.array([1.5, 2.5], ">f8"),
        "kernel": Sum((Matern(jnp.float32(1), jnp.ones(2), float("inf")),)),
        "config": BNNConfig(hidden=(3,)),
    }
    structure, arrays = encode(tree, "tree")
    found = decode(json.loads(json.dumps(structure, allow_nan=False)), arrays)
    assert list(found) == list(tree)
    assert found["scalars"] == tree["scalars"]
    assert [type(item) for item in found["scalars"]] == [type(item) for item in tree["scalars"]]
    assert str(found["scalars"][7]) == "-0.0"
    assert (found["floats"], found["empty"]) == (tree["floats"], tree["empty"])
    assert type(found["a"]["b"]) is np.float64
    assert type(found["a"]["c"]) is np.ndarray
    assert found["a"]["c"].shape == ()
    for name in ("a.b", "a", "jax", "__metadata__", "big-endian"):
        for a, b in zip(jax.tree.leaves(tree[name]), jax.tree.leaves(found[name])):
            assert isinstance(b, jax.Array) == isinstance(a, jax.Array)
            assert b.dtype == a.dtype.newbyteorder("=") if isinstance(a, np.ndarray) else b.dtype == a.dtype
            np.testing.assert_array_equal(a, b)
    for a, b in zip(tree["keys"], found["keys"]):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(jax.random.key_data(a), jax.random.key_data(b))
    assert found["kernel"].parts[0].order == float("inf")
    assert found["config"] == tree["config"]
    assert np.isnan(decode(*encode(float("nan"), "tree")))
    found["a.b"][:] = 0  # a NumPy array from a file can be written to, as the saved one could


@dataclass
class Foreign:
    """Not of the package."""

    value: int = 1


@pytest.mark.parametrize(
    "value",
    [
        jnp.tanh,
        lambda x: x,
        Foreign(),
        eqx.nn.Linear(1, 1, key=jax.random.key(0)),
        PaddedTasks(jnp.ones(1), jnp.ones(1), jnp.ones(1)),
        {1: 2},
        {1, 2},
        b"bytes",
        1j,
        Path("x"),
        np.array(["text"]),
        np.array([None]),
        np.array(["2020-01-01"], "M8[D]"),
        np.ma.masked_array([1.0], [True]),
        jnp.ones(1, jnp.bfloat16),
        Task,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_file_cannot_hold_is_named_when_saving(value: Any, path: Path) -> None:
    prior = NaivePrior(fitted("ridge").standardizer, fitted("ridge").rule, value)  # type: ignore[attr-defined]
    message = error_of(save_prior, prior, path)
    assert "the prior.width" in message
    assert str(path) in message
    assert os.listdir(path.parent) == []


def test_a_prior_of_another_package_cannot_be_saved(path: Path) -> None:
    class Mine(NaivePrior):
        pass

    prior = fitted("ridge")
    message = error_of(save_prior, Mine(prior.standardizer, prior.rule, prior.width), path)  # type: ignore[attr-defined]
    assert "Mine; files hold" in message


def test_describe_tells_the_header(path: Path) -> None:
    prior = by_hand()
    metadata = {
        "method": "hierarchical-gp",
        "config": ProcessConfig(),
        "domain": {"low": np.array([-1.0, 0.0]), "high": (1, jnp.inf)},
        "metrics": {"rmse": np.float32(0.5), "nll": float("nan")},
        "note": ["a", None, True],
    }
    save_prior(prior, path, metadata=metadata)
    told = describe(path)
    assert (told["format"], told["version"], told["kind"], told["method"]) == (
        "scoreprior",
        2,
        "prior",
        "hierarchical-gp",
    )
    assert told["class"] == "function-prior"
    assert told["config"]["deviation"] == ["linear", "matern12", "matern52"]
    assert told["domain"] == {"low": [-1.0, 0.0], "high": [1, float("inf")]}
    assert told["metrics"]["rmse"] == 0.5
    assert np.isnan(told["metrics"]["nll"])
    assert told["standardizer"]["x_mean"] == prior.standardizer.x_mean.tolist()
    assert told["standardizer"]["y_std"] == prior.standardizer.y_std
    assert told["versions"]["jax"] == jax.__version__
    assert told["extra"] == {"note": ["a", None, True]}
    assert told["arrays"]["inference.process.noise_std"] == "float32[]"
    assert told["arrays"]["standardizer.x_mean"] == "float64[2]"
    assert told["bytes"] == path.stat().st_size
    assert len(metadata) == 5  # the caller's dict is left alone
    # Any safetensors reader sees the arrays.
    raw = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(raw["standardizer.x_std"], prior.standardizer.x_std)
    assert "extra.f in its metadata is a function" in error_of(
        lambda: save_prior(prior, path, metadata={"f": lambda: 0})
    )


def test_saving_is_all_or_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prior = fitted("ridge")
    save_prior(prior, path)
    before = path.read_bytes()
    # A file system that takes no more than a few bytes, as a full disk does.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        message = error_of(save_prior, fitted("newest-lag"), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert message == f"Cannot save {str(path)!r}: File too large."

    def refuse(*args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, refuse)
            assert "Permission denied" in error_of(save_prior, fitted("newest-lag"), path)

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save_prior(fitted("newest-lag"), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_saving_to_bad_places(path: Path) -> None:
    prior = fitted("ridge")
    assert "No such file or directory" in error_of(save_prior, prior, path.parent / "none" / "prior")
    assert "it is a directory" in error_of(save_prior, prior, path.parent)
    path.write_text("a file")
    assert "Not a directory" in error_of(save_prior, prior, path / "prior")
    if os.geteuid() != 0:
        path.parent.chmod(0o500)
        message = error_of(save_prior, prior, path.parent / "new")
        path.parent.chmod(0o700)
        assert "Permission denied" in message
    assert os.listdir(path.parent) == [path.name]


def test_saving_through_a_link_keeps_the_link(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    save_prior(fitted("ridge"), link)
    assert link.is_symlink()
    assert_same_tree(load_prior(path), fitted("ridge"))
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_reading_bad_places(path: Path) -> None:
    for action in (load_prior, describe):
        assert "No such file" in error_of(action, path)
        assert "it is a directory" in error_of(action, path.parent)
        assert error_of(action, "no\nsuch").startswith("Cannot read 'no\\nsuch'")
    path.write_bytes(b"")
    assert "empty" in error_of(load_prior, path)
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in error_of(load_prior, path)


def test_foreign_files(path: Path, saved: bytes) -> None:
    def message(data: bytes) -> str:
        path.write_bytes(data)
        return error_of(load_prior, path)

    assert "not a Scoreprior file" in message(b"x,y\n1,2\n3,4\n")
    assert "not a Scoreprior file" in message(b"\x80\x04\x95pickle, perhaps")
    assert "not a Scoreprior file" in message(bytes(1000))
    assert "not a Scoreprior file" in message(safetensors.numpy.save({"a": np.ones(3)}))
    assert "not a Scoreprior file" in message(safetensors.numpy.save({"a": np.ones(3)}, {"scoreprior": "{}"}))
    assert "not a Scoreprior file" in message(forge(saved, lambda info: info.update(format="other")))
    newer = message(forge(saved, lambda info: info.update(version=3)))
    assert newer.endswith("it has format version 3, this Scoreprior reads 1 and 2; a newer Scoreprior wrote it.")
    assert "it has format version 0" in message(forge(saved, lambda info: info.update(version=0)))
    assert "not a Scoreprior file" in message(forge(saved, lambda info: info.update(version=True)))


def test_every_truncation_is_an_error(path: Path, saved: bytes) -> None:
    for length in range(len(saved)):
        path.write_bytes(saved[:length])
        error_of(load_prior, path)
    path.write_bytes(saved[:-1])
    assert "cut short" in error_of(load_prior, path)
    path.write_bytes(saved + b"\0")
    assert "checksum" in error_of(load_prior, path)


def test_every_flipped_byte_is_an_error(path: Path, saved: bytes) -> None:
    generator = random.Random(0)
    for position in range(len(saved)):
        changed = bytearray(saved)
        changed[position] ^= generator.randrange(1, 256)
        path.write_bytes(changed)
        error_of(load_prior, path)
    # All eight bits of the last byte, which is the arrays': the checksum sees what JSON cannot.
    for bit in range(8):
        path.write_bytes(saved[:-1] + bytes([saved[-1] ^ (1 << bit)]))
        assert "checksum" in error_of(load_prior, path)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_random_edits_are_errors_or_no_change(path: Path, saved: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(saved)))
    end = data.draw(st.integers(start, min(len(saved), start + 40)))
    copied = data.draw(st.integers(0, len(saved)))
    piece = data.draw(st.one_of(st.binary(max_size=40), st.just(saved[copied : copied + 40])))
    edited = saved[:start] + piece + saved[end:]
    path.write_bytes(edited)
    if edited == saved:
        assert_same_tree(load_prior(path), fitted("newest-lag"))
    else:
        error_of(load_prior, path)


def test_hand_edits_of_the_header_are_seen(path: Path, saved: bytes) -> None:
    def swap(header: dict) -> None:
        header["rule.scale"], header["rule.shift"] = header["rule.shift"], header["rule.scale"]

    for edit in (
        {"info": lambda info: info.update(method="ridge")},
        {"info": lambda info: info["tree"]["fields"]["rule"]["fields"].update(column=0)},
        {"info": lambda info: info["standardizer"].update(y_mean=0.0)},
        {"outer": swap},
        {"text": lambda text: text + " " * 8},
    ):
        path.write_bytes(forge(saved, **edit, checksum=False))
        assert "checksum does not match" in error_of(load_prior, path)
        assert "checksum does not match" in error_of(describe, path)
    path.write_bytes(forge(saved))
    assert_same_tree(load_prior(path), fitted("newest-lag"))  # forging itself is sound


def _nested(depth: int) -> Any:
    tree: Any = 0
    for _ in range(depth):
        tree = [tree]
    return tree


def test_a_file_from_before_a_field_was_there_has_its_default():
    prior = eqx.tree_at(lambda p: p.inference.process.scale, fitted("by hand"), None)
    structure, arrays = encode(prior, "it")
    process = structure["fields"]["inference"]["fields"]["process"]
    assert process["fields"].pop("scale", 0) is None
    assert_same_tree(decode(structure, arrays), prior)


FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "foreign class": (
        {"info": lambda info: info["tree"].update({"class": "os:system"})},
        "'os:system', which is no registered class",
    ),
    "class of the package": (
        {"info": lambda info: info["tree"].update({"class": "scoreprior.learners.naive:NaivePrior"})},
        "which is no registered class",
    ),
    "class of a method that is not there": (
        {"info": lambda info: info["tree"].update({"class": "toy/ToyPrior"})},
        "it was written with 'toy', which is not registered here; import the module that registers it first",
    ),
    "another class": (
        {"info": lambda info: info["tree"].update({"class": "box"})},
        "its Box has other fields",
    ),
    "missing field": ({"info": lambda info: info["tree"]["fields"].pop("rule")}, "other fields"),
    "extra field": ({"info": lambda info: info["tree"]["fields"].update(more=1)}, "other fields"),
    "no prior": (
        {"info": lambda info: info.update(tree=info["tree"]["fields"]["standardizer"])},
        "does not use",
    ),
    "unknown node": ({"info": lambda info: info["tree"]["fields"].update(width={"eval": "1"})}, "unknown"),
    "bad float": ({"info": lambda info: info["tree"]["fields"].update(width={"float": "1"})}, "unknown"),
    "missing array": ({"outer": lambda outer: outer.pop("width")}, ""),
    "renamed array": ({"outer": lambda outer: outer.update(depth=outer.pop("width"))}, "'width' is missing"),
    "array used twice": (
        {"info": lambda info: info["tree"]["fields"].update(width={"jax": "rule.scale"})},
        "'rule.scale' is missing or used twice",
    ),
    "bad key": (
        {"info": lambda info: info["tree"]["fields"].update(width={"key": "width", "impl": "os"})},
        "",
    ),
    "no tree": ({"info": lambda info: info.pop("tree")}, "incomplete"),
    "huge array": ({"outer": lambda outer: outer["width"].update(shape=[2**40])}, ""),
    "huge empty array": (
        {"outer": lambda outer: outer.update(width={"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]})},
        "",
    ),
    "huge offsets": ({"outer": lambda outer: outer["width"].update(data_offsets=[0, 2**40])}, "cut short"),
    "negative offsets": ({"outer": lambda outer: outer["width"].update(data_offsets=[-8, -4])}, ""),
    "offsets of text": ({"outer": lambda outer: outer["width"].update(data_offsets="ab")}, ""),
    "odd type": ({"outer": lambda outer: outer["width"].update(dtype="BF16")}, ""),
    "array in place of its entry": ({"outer": lambda outer: outer.update(width=3)}, ""),
    "deep tree": ({"info": lambda info: info.update(tree=_nested(900))}, ""),
    "duplicate array": (
        {"text": lambda text: text[:-1] + ',"width":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}'},
        "header is damaged",
    ),
    "duplicate entry": (
        {"text": lambda text: text.replace('\\"kind\\"', '\\"kind\\":\\"prior\\",\\"kind\\"', 1)},
        "header is damaged",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_with_a_good_checksum(name: str, path: Path, saved: bytes) -> None:
    edit, expected = FORGERIES[name]
    path.write_bytes(forge(saved, **edit))
    tracemalloc.start()
    try:
        message = error_of(load_prior, path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert expected in message
    assert peak < 20e6


def test_a_huge_declared_header_claims_no_memory(path: Path, saved: bytes) -> None:
    for length in (2**63, 2**40, len(saved)):
        path.write_bytes(length.to_bytes(8, "little") + saved[8:])
        tracemalloc.start()
        try:
            assert "cut short" in error_of(load_prior, path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1e6


def test_random_forgeries_raise_nothing_else(path: Path, saved: bytes) -> None:
    """Random JSON anywhere in the tree, under a good checksum: an error in one line, or some prior."""
    generator = random.Random(1)
    values: list[Any] = [None, True, -1, 2**80, 0.5, "", "width", [], {}, {"tuple": 3}, {"jax": "width"}]
    values += [
        {"class": "standardizer", "fields": {}},
        {"key": "width", "impl": "threefry2x32"},
    ]

    def scramble(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = generator.choice(keys)
        if isinstance(node[key], (dict, list)) and node[key] and generator.random() < 0.8:
            scramble(node[key])
        elif generator.random() < 0.2:
            del node[key]
        else:
            node[key] = generator.choice(values)

    errors = 0
    for _ in range(300):
        try:
            path.write_bytes(forge(saved, **{generator.choice(["info", "outer"]): scramble}))
        except (TypeError, AttributeError):  # the checksum itself was scrambled away
            continue
        try:
            assert isinstance(load_prior(path), Prior)
        except PriorFileError:
            error_of(load_prior, path)
            errors += 1
    assert errors > 100


@pytest.mark.parametrize(
    "name",
    [
        "",
        "os:system",
        "builtins:eval",
        "scoreprior:Prior",
        "scoreprior.cli.main:app",
        "scoreprior.tasks.standardizer:Standardizer",
        "tasks.standardizer:Standardizer",
        "Standardizer",
        "standardizer\n",
        " standardizer",
        "STANDARDIZER",
        "standardizer.__class__",
        "../standardizer",
        "toy/Toy",
        "/",
    ],
)
def test_only_registered_names_are_found(name: str) -> None:
    with pytest.raises(UnknownClassError, match="registered"):
        class_of(name)


def test_registered_names_are_found() -> None:
    assert class_of("standardizer") is Standardizer
    assert class_of("gaussian-process") is GaussianProcess
