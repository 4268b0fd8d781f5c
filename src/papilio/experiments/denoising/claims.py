"""Claims about denoising with fast dictionaries, and what the table says."""

import json
from pathlib import Path

import numpy as np

from ..claims import DIFFERS, HOLDS, Claim, claims_table, markdown_table
from ..tables import META, Row, read_table, write_text
from .averages import Results
from .run import DCT, FIXED, KSVD, PAPILIO, TARGET, Case

_STRONG = (30, 50)  # noise levels of the claims
_COLUMNS = ("learning_seconds", "denoising_seconds")
_NEAR, _ABOVE_DCT = 0.1, 0.3  # dB


def write(folder: Path) -> list[Path]:
    """Write claims.md from the tables in ``folder``."""
    meta = json.loads((folder / META).read_text(encoding="utf-8"))
    path = folder / "claims.md"
    write_text(path, page(Results(read_table(folder / "table.csv")), read_table(folder / "times.csv"), meta))
    return [path]


def page(results: Results, times: list[Row], meta: dict[str, object]) -> str:
    """The page, as markdown."""
    versions = meta["versions"]
    assert isinstance(versions, dict)
    made_by = ", ".join(f"{name} {number}" for name, number in versions.items())
    images = f"{len(results.images)} image{'s' * (len(results.images) > 1)} ({', '.join(results.images)})"
    sizes = results.atoms()
    return "\n".join(
        [
            "# Denoising, claim by claim",
            "",
            f"Preset `{meta['preset']}`, {images}; {made_by}.",
            "",
            claims_table([*_followup(results), *_own(results)], "Claim"),
            "",
            "1 and 2 are from Le Magoarou and Gribonval, *Flexible multilayer sparse approximations of matrices"
            " and applications* (2016), section VI, with its coding: the same number of atoms per patch, when"
            " learning and when denoising, whatever the noise. The others are our own, for coding to an error that"
            " depends on the noise. The redundant DCT has the next square number of atoms: 144 instead of 128, 529"
            " instead of 512.",
            "",
            *(line for atoms in sizes for line in _means(results, atoms)),
            "## Coding with a fixed number of atoms",
            "",
            _fixed_table(results),
            "",
            "## Seconds",
            "",
            "Means, on one thread. The time that papilio takes to learn includes K-SVD, from which it starts.",
            "",
            _times_table(times),
            "",
        ]
    )


def _followup(results: Results) -> list[Claim]:
    """Factorized dictionaries win if the noise is strong, having less freedom to learn it, and lose otherwise."""
    gains = {
        (sigma, atoms): float(np.mean(results.gains(sigma, Case(FIXED, atoms, PAPILIO), Case(FIXED, atoms, KSVD))))
        for sigma in results.sigmas
        for atoms in results.atoms(FIXED)
    }
    strong = [sigma for sigma in results.sigmas if sigma in _STRONG]
    levels = " and ".join(map(str, strong))
    weak = results.sigmas[0]

    def figures(sigmas: list[int]) -> str:
        return "; ".join(
            f"σ = {sigma}: "
            + ", ".join(f"{gains[sigma, atoms]:+.2f} dB ({atoms})" for atoms in results.atoms(FIXED))
            for sigma in sigmas
        )

    def verdict(truths: list[bool]) -> str:
        return HOLDS if all(truths) else DIFFERS

    at_strong = [
        Claim(
            f"At σ = {levels}, factorized dictionaries denoise better than K-SVD's.",
            verdict([gain > 0 for (sigma, _), gain in gains.items() if sigma in strong]),
            figures(strong),
        )
    ]
    return [
        *(at_strong if strong else []),
        Claim(
            "At low noise they do worse.",
            verdict([gain < 0 for (sigma, _), gain in gains.items() if sigma == weak]),
            figures([weak]),
        ),
    ]


def _own(results: Results) -> list[Claim]:
    """How near papilio at its largest complexity is to K-SVD, and how far above the DCT."""
    sizes = results.atoms()
    atoms = 256 if 256 in sizes else sizes[-1]
    complexity = results.complexities(atoms)[-1]
    ours = Case(TARGET, atoms, PAPILIO, complexity)
    claims = []
    for sigma in (sigma for sigma in results.sigmas if sigma in _STRONG):
        dense, dct = (results.gains(sigma, ours, Case(TARGET, atoms, name)) for name in (KSVD, DCT))
        above = sigma == max(_STRONG)
        claims += [
            Claim(
                f"At σ = {sigma}, papilio with {atoms} atoms and complexity {complexity} is "
                + ("above K-SVD." if above else f"within {_NEAR} dB of K-SVD."),
                HOLDS if np.mean(dense) > (0.0 if above else -_NEAR) else DIFFERS,
                _gain(dense),
            ),
            Claim(
                f"At σ = {sigma}, it is at least {_ABOVE_DCT} dB above the redundant DCT.",
                HOLDS if np.mean(dct) >= _ABOVE_DCT else DIFFERS,
                _gain(dct),
            ),
        ]
    return claims


def _gain(gains: list[float]) -> str:
    won = sum(gain > 0 for gain in gains)
    span = f"from {min(gains):+.2f} to {max(gains):+.2f}"
    return f"{np.mean(gains):+.3f} dB on average, {span}; above in {won} of {len(gains)}"


def _means(results: Results, atoms: int) -> list[str]:
    """PSNR and SSIM of all dictionaries of one size, against the noise."""
    rows = []
    for case in (case for case in results.cases if (case.coding, case.atoms) == (TARGET, atoms)):
        means = [results.mean(sigma, case) for sigma in results.sigmas]
        name = f"{PAPILIO}, {case.complexity}" if case.method == PAPILIO else case.method
        complexity = f"{means[0].relative_complexity:.3f}"
        rows.append((name, complexity, *(f"{mean.psnr:.2f} / {mean.ssim:.3f}" for mean in means)))
    headings = ("dictionary", "complexity", *(f"σ = {sigma}" for sigma in results.sigmas))
    return [f"## {atoms} atoms: PSNR in dB / SSIM", "", markdown_table(headings, rows, "lr"), ""]


def _fixed_table(results: Results) -> str:
    cases = [case for case in results.cases if case.coding == FIXED]
    headings = ("atoms", "dictionary", "complexity", *(f"σ = {sigma}" for sigma in results.sigmas))
    rows = []
    for case in cases:
        means = [results.mean(sigma, case) for sigma in results.sigmas]
        name = "factorized" if case.method == PAPILIO else case.method
        complexity = f"{means[0].relative_complexity:.3f}"
        rows.append((str(case.atoms), name, complexity, *(f"{mean.psnr:.2f} / {mean.ssim:.3f}" for mean in means)))
    return markdown_table(headings, rows, "rlr")


def _times_table(times: list[Row]) -> str:
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in times:
        groups.setdefault((row["coding"], row["atoms"], row["method"], row["complexity"]), []).append(row)
    rows = [
        (*key, *(f"{np.mean([float(row[column]) for row in group]):.2f}" for column in _COLUMNS))
        for key, group in groups.items()
    ]
    return markdown_table(("coding", "atoms", "method", "limit", "learning", "denoising"), rows, "lrlr")
