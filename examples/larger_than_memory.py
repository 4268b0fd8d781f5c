"""
Learning from files, and a power failure
========================================

Data that do not fit into memory are read from disk, in passes. Here a dictionary is learned from a folder of
files, with a checkpoint. In the middle the power fails. The same call then resumes from the checkpoint, and ends
with the same dictionary, bit by bit, as a run without interruption.
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import papilio as pp

N_FILES, ROWS, N_ATOMS, N_NONZERO = 3, 50_000, 64, 4

# %%
# A folder of files
# -----------------
#
# Three files of 50,000 patches each, one patch per row, in single precision. They would fit into memory, so
# that the example is short; nothing changes if there are a thousand of them. :func:`papilio.datasets.on_disk`
# opens them and reads nothing yet. A memory-mapped array or a Dask array would do as well.

scratch = tempfile.TemporaryDirectory()
shards = Path(scratch.name, "patches")
shards.mkdir()
for n in range(N_FILES):
    np.save(shards / f"{n}.npy", pp.datasets.image_patches(ROWS, 8, random_state=n, dtype=np.float32))
data = pp.datasets.on_disk(shards)
size = sum(path.stat().st_size for path in shards.iterdir())
print(f"{N_FILES} files, {data.shape[0]:,} samples of {data.shape[1]} values, {size / 2**20:.0f} MB")

# %%
# A run without interruption
# --------------------------
#
# Learning needs only sums over the samples. It starts from a random sample of 50,000 rows, which is held in
# memory; then it reads all files in passes.


def learner(callback=None, checkpoint=None):
    return pp.OnlineDictionaryLearning(
        N_ATOMS, N_NONZERO, tol=0, callback=callback, checkpoint=checkpoint, random_state=0
    )


begin = perf_counter()
undisturbed = learner().fit(data)
print(f"{perf_counter() - begin:.1f} s")
print("phases:", ", ".join(dict.fromkeys(step.phase for step in undisturbed.history_)))

# %%
# A power failure
# ---------------
#
# The state is saved after each phase and every half minute. A callback is called after each step; this one ends
# the run by raising an exception.


class PowerFailure(Exception):
    pass


def fail(step):
    if step.phase == "all data":
        raise PowerFailure


checkpoint = Path(scratch.name, "run.ckpt")
begin = perf_counter()
try:
    learner(fail, checkpoint).fit(data)
except PowerFailure:
    print(f"the power failed after {perf_counter() - begin:.1f} s")
print("left on disk:", sorted(path.name for path in Path(scratch.name).iterdir()))

# %%
# The same call again
# -------------------

begin = perf_counter()
resumed = learner(checkpoint=checkpoint).fit(data)
print(f"resumed and finished in {perf_counter() - begin:.1f} s")
print("the same dictionary, bit by bit:", np.array_equal(resumed.components_, undisturbed.components_))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1.5, 1])
errors = {phase: [] for phase in ("online", "all data")}
for i, step in enumerate(resumed.history_, start=1):
    if step.phase in errors:
        errors[step.phase].append((i, step.error))
left.plot(*zip(*errors["online"], strict=True), "o-", color="0.55", markersize=4, label="online, random sample")
left.plot(
    *zip(*errors["all data"], strict=True), "o-", color="#d55e00", markersize=4, label="passes over all files"
)
left.axvline(len(errors["online"]) + 0.5, color="black", linestyle="--", linewidth=1, label="power failure")
left.set(xlabel="iteration", ylabel="relative error")
left.legend(frameon=False, fontsize="small")
left.spines[["top", "right"]].set_visible(False)
pp.plot.atoms(resumed, (8, 8), right).set_title(f"{N_ATOMS} atoms", fontsize="medium")

# %%
# What it costs
# -------------
#
# Each pass reads and codes each sample once. If the data fit into memory, an array avoids the reading. And often
# a random part of the data is enough; new patches show how much the rest adds:

new = pp.datasets.image_patches(20_000, 8, random_state=99)
part = learner().fit(np.load(shards / "0.npy")[:5000])
for name, model in (("all files", resumed), ("5,000 patches", part)):
    print(f"relative error on new patches, learned from {name}: {-model.score(new):.4f}")
scratch.cleanup()

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
