"""Several runs in one Python process, as in a notebook: beside the user's own Spark and Dask, and
after deaths.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.system.clusters import dask, spark
from tests.system.clusters.required import required
from tests.system.faults.command import make_volume

NOTEBOOK = """
import json, sys, tempfile, threading, time
import numpy as np
from distributed import Client, LocalCluster
from pyspark import SparkConf, SparkContext
import hyperslab

if __name__ == "__main__":
    said = {}
    def run(name, engine, **options):
        pipeline = hyperslab.Pipeline(sys.argv[1]).map(lambda block: block + np.uint16(1))
        try:
            result = hyperslab.run(
                pipeline.write(tempfile.mkdtemp(dir=sys.argv[2])),
                engine=engine, blocks=4, report=False, check=False, **options,
            )
            said[name] = result.state
        except hyperslab.HyperslabError as error:
            said[name] = str(error)

    own = SparkContext(conf=SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false"))
    run("beside a context", "spark")
    run("another master", "spark", connect="local-cluster[2,1,1024]")
    said["the context lives"] = own.parallelize(range(10)).sum()
    own.stop()
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()
    run("after Java has died", "spark")

    settings = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    client = Client(LocalCluster(**settings))
    threads = [
        threading.Thread(target=run, args=(engine, engine), kwargs={"workers": 2})
        for engine in ("dask-futures", "processes")
    ]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    said["the client lives"] = client.submit(sum, [1, 2]).result()
    client.cluster.close()
    client.close()
    print("SAID", json.dumps(said))
"""


def test_runs_in_one_process(tmp_path: Path) -> None:
    required(spark.missing() or dask.missing())
    make_volume(tmp_path / "in.nii")
    script = tmp_path / "notebook.py"
    script.write_text(NOTEBOOK)
    line = [sys.executable, str(script), str(tmp_path / "in.nii"), str(tmp_path)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=230, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.partition("SAID ")[2])
    assert "this process has a SparkContext on local[2]" in said.pop("another master")
    assert (said.pop("the context lives"), said.pop("the client lives")) == (45, 3)
    assert set(said.values()) == {"done"}, said
    assert len(said) == 4, done.stderr
