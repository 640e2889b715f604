"""An S3 server in this process, with the small tables and images under the names that Ray's release
benchmarks and documents read."""

import gzip
import io
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 60_000  # of lineitem: a hundredth of the smallest that the benchmarks know
IMAGES = 64


def _parquet(table, rows=None):
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=rows)
    return out.getvalue()


def lineitem(seed):
    """The columns of TPC-H's lineitem, under the numbered names that the benchmarks expect."""
    r = np.random.default_rng(seed)

    def day():
        return pa.array(
            np.datetime64("1992-01-01", "ms") + r.integers(0, 2500, ROWS).astype("timedelta64[D]")
        )

    number = lambda low, high: np.round(r.uniform(low, high, ROWS), 2)  # noqa: E731
    word = lambda *of: pa.array(np.array(of)[r.integers(0, len(of), ROWS)])  # noqa: E731
    order = (np.arange(ROWS) + seed * ROWS) // 8
    columns = [order, r.integers(1, 2000, ROWS), r.integers(1, 100, ROWS), r.integers(1, 8, ROWS)]
    columns += [
        r.integers(1, 51, ROWS).astype(float),
        number(900, 100_000),
        number(0, 0.1),
        number(0, 0.08),
    ]
    columns += [word("A", "N", "R"), word("F", "O"), day(), day(), day()]
    columns += [
        word("NONE", "COLLECT COD", "TAKE BACK RETURN"),
        word("AIR", "MAIL", "SHIP", "TRUCK"),
        word("carefully", "quickly", "slyly"),
    ]
    return pa.table({f"column{i:02d}": c for i, c in enumerate(columns)})


def tables():
    """{name: table} of TPC-H's other tables, whose columns have one digit; keys are those that
    lineitem names."""
    r = np.random.default_rng(7)
    number = lambda low, high, n: np.round(r.uniform(low, high, n), 2)  # noqa: E731
    word = lambda of, n: np.array(of)[r.integers(0, len(of), n)]  # noqa: E731
    orders, parts, suppliers, customers = ROWS // 2, 2000, 100, 900
    nations = ["FRANCE", "GERMANY", "BRAZIL", "CHINA", "KENYA"]
    day = np.datetime64("1992-01-01", "ms") + r.integers(0, 2500, orders).astype("timedelta64[D]")
    colours, kinds = (
        ["green", "red", "dark green", "blue"],
        ["ECONOMY ANODIZED STEEL", "PROMO BRUSHED TIN"],
    )
    text = lambda n: [f"text {i}" for i in range(n)]  # noqa: E731
    made = {
        "region": [np.arange(5), ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"], text(5)],
        "nation": [np.arange(5), nations, [3, 3, 1, 2, 0], text(5)],
        "supplier": [
            np.arange(suppliers),
            text(suppliers),
            text(suppliers),
            r.integers(0, 5, suppliers),
        ],
        "customer": [
            np.arange(customers),
            text(customers),
            text(customers),
            r.integers(0, 5, customers),
        ],
        "orders": [
            np.arange(orders),
            r.integers(0, customers, orders),
            word(["F", "O"], orders),
            number(900, 400_000, orders),
            day,
        ],
        "part": [
            np.arange(parts),
            word(colours, parts),
            text(parts),
            text(parts),
            word(kinds, parts),
            r.integers(1, 50, parts),
        ],
        "partsupp": [
            np.repeat(np.arange(parts), 50),
            np.tile(np.arange(0, suppliers, 2), parts),
            r.integers(1, 9999, 50 * parts),
        ],
    }
    made["supplier"] += [text(suppliers), number(-999, 9999, suppliers), text(suppliers)]
    segment = word(["BUILDING", "MACHINERY"], customers)
    made["customer"] += [text(customers), number(-999, 9999, customers), segment, text(customers)]
    made["orders"] += [
        word(["1-URGENT", "5-LOW"], orders),
        text(orders),
        np.zeros(orders, np.int64),
        text(orders),
    ]
    made["part"] += [text(parts), number(900, 2000, parts), text(parts)]
    made["partsupp"] += [number(1, 1000, 50 * parts), text(50 * parts)]
    return {
        name: pa.table({f"column{i}": c for i, c in enumerate(columns)})
        for name, columns in made.items()
    }


def _jpeg(i):
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(i).integers(0, 256, (32, 48, 3), dtype=np.uint8)).save(
        out, "JPEG"
    )
    return out.getvalue()


def _iris():
    r = np.random.default_rng(0)
    sizes = [np.round(r.uniform(0.1, 8, 150), 1) for _ in range(4)]
    return sizes, np.repeat(np.arange(3), 50)


def objects():
    """(bucket, key, bytes) of everything."""
    import pyarrow.csv as pc

    for i in range(4):
        yield (
            "ray-benchmark-data",
            f"tpch/parquet/sf1/lineitem/{i}.parquet",
            _parquet(lineitem(i), ROWS // 2),
        )
    for name, table in tables().items():
        yield "ray-benchmark-data", f"tpch/parquet/sf1/{name}/0.parquet", _parquet(table)
    images = [_jpeg(i) for i in range(IMAGES)]
    labels = [f"n{i % 10}" for i in range(IMAGES)]
    for part in range(2):
        at = slice(part * IMAGES // 2, (part + 1) * IMAGES // 2)
        table = pa.table({"image": images[at], "label": labels[at]})
        yield (
            "ray-benchmark-data-internal-us-west-2",
            f"imagenet/parquet/{part}.parquet",
            _parquet(table, 8),
        )
    wide = pa.table({f"c{i}": [f"{i}-{k}" * 20 for k in range(10)] for i in range(500)})
    yield (
        "ray-benchmark-data-internal-us-west-2",
        "wide_schema/primitives/0.parquet",
        _parquet(wide),
    )
    for i, image in enumerate(images):
        yield "anyscale-imagenet", f"train/{i}.jpg", image
        yield "ray-example-data", f"image-datasets/simple/image{i}.jpg", image
    yield (
        "anyscale-imagenet",
        "metadata.parquet",
        _parquet(pa.table({"key": [f"train/{i}.jpg" for i in range(IMAGES)]})),
    )
    urls = pa.table(
        {
            "image_url": [
                f"s3://anonymous@ray-example-data/image-datasets/simple/image{i}.jpg"
                for i in range(IMAGES)
            ]
        }
    )
    yield "ray-example-data", "imagenet/metadata_file.parquet", _parquet(urls)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    np.save(array := io.BytesIO(), pixels)
    yield "air-example-data", "cifar-10/images.npy", array.getvalue()
    yield (
        "air-example-data",
        "cifar-10/parquet/0.parquet",
        _parquet(pa.table({"img": images[:20], "label": [i % 10 for i in range(20)]})),
    )
    (sizes, kind), text = _iris(), io.BytesIO()
    names = [
        "sepal length (cm)",
        "sepal width (cm)",
        "petal length (cm)",
        "petal width (cm)",
        "target",
    ]
    pc.write_csv(pa.table([*sizes, kind], names), text)
    names = ["sepal.length", "sepal.width", "petal.length", "petal.width", "variety"]
    variety = np.array(["Setosa", "Versicolor", "Virginica"])[kind]
    yield "ray-example-data", "iris.csv", text.getvalue()
    yield "ray-example-data", "iris.csv.gz", gzip.compress(text.getvalue())
    yield "ray-example-data", "iris.parquet", _parquet(pa.table([*sizes, variety], names))
    yield "air-example-data", "iris.csv", text.getvalue()
    yield "ray-example-data", "this.txt", "".join(f"line {i}\n" for i in range(20)).encode()
    yield "ray-example-data", "simple.txt", b"one\ntwo\n"
    yield (
        "ray-example-data",
        "sms_spam_collection_subset.txt",
        "".join(f"ham\tmessage {i}\n" for i in range(20)).encode(),
    )
    yield (
        "ray-example-data",
        "logs.json",
        "".join(f'{{"timestamp": {i}, "size": {i}}}\n' for i in range(20)).encode(),
    )
    yield "ray-example-data", "index.html", b"<html></html>"
    for i, image in enumerate(images[:5]):
        yield "air-example-data", f"digits/{i}.png", image
        yield "ray-example-data", f"batoidea/JPEGImages/{i}.jpeg", image
        yield "air-example-data", f"AnimalDetection/{i}.jpg", image
        yield "ray-example-data", f"documents/{i}.txt", b"a document"
    yield "ray-data-write-benchmark", "empty", b""


def start():
    """The environment with which programs find the server. Needs moto[server], boto3 and Pillow."""
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    env = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-west-2",
    }
    env["AWS_REGION"] = env["AWS_DEFAULT_REGION"]
    os.environ.update(env)
    client, made = boto3.client("s3"), set()
    for bucket, key, data in objects():
        if bucket not in made:
            client.create_bucket(
                Bucket=bucket,
                ACL="public-read",
                CreateBucketConfiguration={"LocationConstraint": "us-west-2"},
            )
            made.add(bucket)
        # documents read without a name
        client.put_object(Bucket=bucket, Key=key, Body=data, ACL="public-read")
    return env
